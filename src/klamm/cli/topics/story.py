"""`klamm story`: what became of a topic, and why, in the order in which it was decided.

Every controller writes down each of its decisions. The brokers that were controllers are asked for
what they wrote, and the pieces are put together by controller epoch and sequence, which no clock
can confuse.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Annotated, Any, Final

import typer

from klamm.cli.asking import refuse, run
from klamm.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption, new_app
from klamm.cli.output import print_json, say
from klamm.client.admin import Admin
from klamm.protocol.private import PrivateKey

app = new_app("What became of a topic, and why.")

Record = dict[str, Any]

# The controller names a cause by its event; here it is in words. A cause that is not here, from a
# newer controller, is shown by its name.
CAUSES: Final[Mapping[str, str]] = {
    "TermBegan": "a controller took over",
    "BrokersChanged": "a broker came or went",
    "TopicsChanged": "a topic appeared in the store or vanished from it",
    "TopicModified": "the topic's assignment was rewritten",
    "MarkersChanged": "somebody asked to delete topics",
    "LeaderAndIsrAnswered": "a broker answered what became of its replicas",
    "StopReplicaAnswered": "a broker answered that it stopped replicas",
    "LogDirFailed": "a broker lost a log directory",
    "ReassignmentsRequested": "a move was asked for through the store",
    "ElectionsRequested": "an election was asked for through the store",
    "UncleanSwitched": "unclean elections were allowed",
    "FreezeSwitched": "writing to the topic was forbidden or allowed",
    "RebalanceDue": "it was time to bring leaders back to their preferred brokers",
    "RetryDue": "it was time to try again",
    "ShutdownAsked": "a broker asked to be relieved before it stops",
    "IsrChangesAsked": "a leader asked to change who is in sync",
    "ElectionsAsked": "somebody asked for an election",
    "ReassignmentsAsked": "somebody asked to move replicas",
    "BrokerUnreachable": "a broker did not take the controller's requests for too long",
    "BrokerReached": "a broker that could not be reached answered",
    "DeletionCancelled": "an operator called a deletion off",
    "ReplicaGivenUp": "an operator gave up a broker's copies",
    "TopicArchived": "the topic was archived to be deleted",
}
# What ledgers of earlier controllers call three of them.
_FORMER: Final[Mapping[str, str]] = {
    "MovesRequested": "ReassignmentsRequested",
    "MovesAsked": "ReassignmentsAsked",
    "ReplicaForgotten": "ReplicaGivenUp",
}


@app.command()
def story(
    topic: str,
    last: Annotated[int, typer.Option("-n", help="only the last of them; 0 = all", min=0)] = 0,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """What became of a topic, and why, in the order in which it was decided."""
    records = run(bootstrap_server, lambda admin: _gather(admin, topic))[-last:]
    if output is Output.JSON:
        print_json(records)
    elif records:
        say(*tell(records))
    else:
        say(f"nothing is written down about topic {topic!r}")


async def _gather(admin: Admin, topic: str) -> list[Record]:
    """What all brokers that are up wrote down about the topic, in order."""
    found: dict[tuple[int, int], Record] = {}
    answers = await admin.ask_brokers(PrivateKey.STORY, {"topic": topic})
    for broker, answer in answers.items():
        refuse(answer["error_code"], f"broker {broker}", answer.get("error_message"))
        for record in answer["entries"]:
            found[record["controller_epoch"], record["sequence"]] = record
    return [record for _, record in sorted(found.items())]


def tell(records: Iterable[Record]) -> Iterator[str]:
    """A heading for each cause, below it what it led to, alike moves in one line."""
    for (_epoch, cause, time_ms), group in groupby(records, key=_cause):
        yield f"{_clock(time_ms)}  {CAUSES.get(_FORMER.get(cause, cause), cause)}"
        for (before, after, why), alike in groupby(group, key=_move):
            subjects = [str(record["subject"]) for record in alike]
            because = f" ({why})" if why else ""
            yield f"              {_list(subjects)}: {before} -> {after}{because}"


def _cause(record: Record) -> tuple[int, str, int]:
    return record["controller_epoch"], str(record["cause"]), int(record["time_ms"])


def _move(record: Record) -> tuple[str, str, str]:
    return str(record["before"]), str(record["after"]), str(record.get("why") or "")


def _list(subjects: list[str]) -> str:
    """Few in full, many by their first and number."""
    if len(subjects) <= 4:
        return ", ".join(subjects)
    return f"{subjects[0]}, {subjects[1]} and {len(subjects) - 2} more"


def _clock(time_ms: int) -> str:
    seconds, millis = divmod(time_ms, 1000)
    return time.strftime("%H:%M:%S", time.localtime(seconds)) + f".{millis:03}"
