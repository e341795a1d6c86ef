"""Options that mean the same in every command, and the app each command is made of."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from klamm.cli.output import Output
from klamm.cli.parsing.declared import Option
from klamm.cli.reach import DEFAULT_BOOTSTRAP, BootstrapOption, Reach, ReachingApp
from klamm.model.errors import UsageError

if TYPE_CHECKING:
    from klamm.protocol.compression import Codec

__all__ = [
    "DEFAULT_BOOTSTRAP",
    "DEFAULT_MASTER",
    "BootstrapOption",
    "Compression",
    "DryRunOption",
    "MasterOption",
    "Output",
    "OutputOption",
    "Reach",
    "new_app",
    "parse_assignment",
    "parse_ids",
    "parse_pair_list",
    "parse_pairs",
    "parse_partition",
]


class Compression(StrEnum):
    """The compression of batches."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"

    @property
    def codec(self) -> Codec:
        from klamm.protocol.compression import Codec

        return Codec[self.name]


def new_app(summary: str, *, is_group: bool = False) -> ReachingApp:
    """The app of one word after `klamm`; with more than one command it is a group."""
    return ReachingApp(summary, is_group=is_group)


OutputOption = Annotated[Output, Option("--output", "-o", help="print text, or one JSON value")]
DryRunOption = Annotated[bool, Option("--dry-run", help="check everything, change nothing")]
MasterOption = Annotated[
    str,
    Option(
        envvar="KLAMM_SPARK_MASTER",
        help="where Spark runs: local[*], spark://host:port; auto is the Spark of "
        "`klamm spark serve`, or else local[*]",
    ),
]
DEFAULT_MASTER = "auto"


def parse_pairs(texts: Iterable[str], *, option: str) -> dict[str, str]:
    """`name=value` texts as a mapping; a name with two values is refused."""
    pairs: dict[str, str] = {}
    for name, value in parse_pair_list(texts, option=option):
        if pairs.setdefault(name, value) != value:
            raise UsageError(
                f"{option} says {name}={pairs[name]} and {name}={value}: leave one of them out"
            )
    return pairs


def parse_pair_list(texts: Iterable[str], *, option: str) -> list[tuple[str, str]]:
    """`name=value` texts taken apart; the value may itself contain '='."""
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{option} takes name=value, not {text!r}")
        pairs.append((name.strip(), value))
    return pairs


def parse_assignment(text: str) -> list[tuple[int, ...]]:
    """`0:1,1:2`: the replicas of each partition, the first being its preferred leader."""
    try:
        partitions = [tuple(int(broker) for broker in part.split(":")) for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"an assignment is written 0:1,1:2 (partition,partition of broker:broker), not {text!r}"
        ) from None
    for at, replicas in enumerate(partitions):
        if len(set(replicas)) != len(replicas):
            raise UsageError(f"partition {at} names a broker twice in {text!r}")
    return partitions


def parse_partition(text: str) -> tuple[str, int]:
    """`orders-0` as a topic and a partition; the topic's name may itself have dashes."""
    topic, dash, index = text.rpartition("-")
    if not dash or not topic or not index.isdigit():
        raise UsageError(f"a partition is written like orders-0, not {text!r}")
    return topic, int(index)


def parse_ids(text: str) -> tuple[int, ...]:
    """`0,1,2` as broker ids."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"broker ids are written like 0,1,2, not {text!r}") from None
