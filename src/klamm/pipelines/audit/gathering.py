"""Gathers the ledger that an audit judges: from its topic, from brokers, or from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from klamm.client.aio.admin import Admin
from klamm.client.aio.visit import visit
from klamm.client.errors import refuse
from klamm.client.settings import ClientSettings, ConnectionOptions
from klamm.model.errors import UsageError
from klamm.pipelines.audit import judging_here
from klamm.protocol.private import PrivateKey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from klamm.pipelines.audit.judging import LedgerEvidence

_PAGE: Final = 10_000


def check_ledger(path: Path) -> None:
    """Refuses files without an event: an audit of a wrong path would look flawless."""
    if not path.exists():
        raise UsageError(f"the ledger {path} does not exist")
    try:
        files = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
        for file in files:
            with file.open("rb") as lines:
                if any(b'"controller_epoch"' in line for line in lines):
                    return
    except OSError as fault:
        raise UsageError(f"cannot read {fault.filename}: {fault.strerror}") from None
    raise UsageError(f"{path} contains no ledger events")


def gather(
    spark: SparkSession,
    reach: ConnectionOptions,
    waiting: Sequence[Mapping[str, Any]],
    *,
    now_ms: int,
    since_ms: int = 0,
) -> LedgerEvidence:
    """The ledger's topic; where there is none that can be read, what brokers have in their files.

    What is not in the topic yet is asked for before the topic is looked at: so nothing falls in
    between, and what is in both counts once.
    """
    from klamm.pipelines.audit.judging import of_entries, of_topic

    found = of_topic(spark, reach, waiting, now_ms=now_ms, since_ms=since_ms)
    return found or of_entries(spark, _asked(reach))


def gather_here(
    reach: ConnectionOptions,
    waiting: Sequence[Mapping[str, Any]],
    *,
    now_ms: int,
    since_ms: int = 0,
) -> judging_here.Lines:
    """The same without Spark."""
    found = judging_here.of_topic(reach, waiting, now_ms=now_ms, since_ms=since_ms)
    return found or judging_here.of_entries(_asked(reach))


def _asked(reach: ConnectionOptions) -> list[dict[str, Any]]:
    return visit(reach.servers, ClientSettings(security=reach.security), everything)


async def not_in_the_topic(admin: Admin) -> list[dict[str, Any]]:
    """The entries that live brokers have not copied to the ledger's topic yet."""
    return await _pages(admin, {"waiting": True})


async def everything(admin: Admin) -> list[dict[str, Any]]:
    """The entries of all live brokers."""
    return await _pages(admin, {})


async def _pages(admin: Admin, question: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: dict[tuple[int, int], dict[str, Any]] = {}
    # Brokers that are not klamm's keep no ledger.
    first = await admin.ask_brokers(PrivateKey.STORY, {"limit": 1}, foreign=set())
    asked: dict[int, list[int]] = {broker: [-1, -1] for broker in first}
    while asked:
        for broker, after in list(asked.items()):
            body = {**question, "after": after, "limit": _PAGE}
            answer = (await admin.ask_brokers(PrivateKey.STORY, body, [broker]))[broker]
            refuse(answer["error_code"], f"broker {broker}", answer.get("error_message"))
            entries = answer["entries"]
            for entry in entries:
                found[entry["controller_epoch"], entry["sequence"]] = entry
            if len(entries) < _PAGE:
                del asked[broker]
            else:
                asked[broker] = [entries[-1]["controller_epoch"], entries[-1]["sequence"]]
    return [entry for _, entry in sorted(found.items())]
