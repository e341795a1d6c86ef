"""A Spark that starts with the first work that is worth it.

Starting Spark, its Java and its Python processes takes seconds of CPU time; moving a few thousand
records takes less. So a command's session is one of these: whatever is asked of it starts Spark,
but pieces of work that are announced as small are done by this process, with the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_RECORDS: Final = 20_000


class SparkWhenNeeded:
    """Stands for a session until something needs one."""

    def __init__(self, begin: Callable[[], SparkSession]) -> None:
        self._begin = begin
        self._session: SparkSession | None = None
        self.is_small = False  # whether what is about to be done can do without

    def __getattr__(self, name: str) -> Any:
        if self._session is None:
            self._session = self._begin()
        return getattr(self._session, name)

    def announce(self, records: int) -> None:
        """So many records are about to be worked on."""
        self.is_small = self._session is None and records <= SMALL_RECORDS

    def stop(self) -> None:
        """Stops Spark, if it was started."""
        if self._session is not None:
            self._session.stop()


def announce(spark: object, records: int) -> None:
    """So many records are about to be worked on."""
    if isinstance(spark, SparkWhenNeeded):
        spark.announce(records)


def is_remote(spark: object) -> bool:
    """Whether this is a session of Spark Connect, which has no Java here; starts one to tell."""
    return not hasattr(spark, "_jsparkSession")


def is_small(spark: object) -> bool:
    """Whether this process is to do the work itself."""
    return isinstance(spark, SparkWhenNeeded) and spark.is_small
