"""`klamm story` prints every decision about a topic, in order, each with its cause.

Every controller writes down each of its decisions. The brokers that were controllers are asked for
what they wrote, the ledger topic for what those wrote that are down, and the pieces are put
together by controller epoch and sequence, which no clock can confuse.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Annotated, Any, Final

from klamm.cli.asking import run
from klamm.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption, new_app
from klamm.cli.output import print_json, say
from klamm.cli.parsing.declared import Option
from klamm.cli.topics.ledger import decisions_about
from klamm.client.aio.admin import Admin
from klamm.client.errors import refuse
from klamm.model.errors import NotThere
from klamm.protocol.private import PrivateKey

app = new_app("Print every decision about a topic, and why it was made.")

Record = dict[str, Any]

# The controller names a cause by its event; here it is in words. A cause that is not here, from a
# newer controller, is shown by its name.
CAUSES: Final[Mapping[str, str]] = {
    "TermBegan": "a controller took over",
    "BrokersChanged": "brokers came or went",
    "TopicsChanged": "the topic was removed from the store by hand",
    "TopicModified": "the topic's assignment was rewritten",
    "MarkersChanged": "a client asked to delete the topic",
    "LeaderAndIsrAnswered": "a broker reported on its replicas",
    "StopReplicaAnswered": "a broker confirmed that it stopped replicas",
    "LogDirFailed": "a broker lost a log directory",
    "ReassignmentsRequested": "a reassignment was requested through the store",
    "ElectionsRequested": "an election was requested through the store",
    "UncleanSwitched": "unclean elections were allowed",
    "FreezeSwitched": "the topic was frozen or unfrozen",
    "ImportSwitched": "the import of the topic ended",
    "SwapAsked": "two topics exchanged their names",
    "RebalanceDue": "the periodic leader rebalance ran",
    "RetryDue": "the retry timer fired",
    "ShutdownAsked": "a broker began a controlled shutdown",
    "IsrChangesNoticed": "a leader stored a new in-sync set",
    "IsrChangesAsked": "a leader asked to change the in-sync set",
    "ElectionsAsked": "a client asked for an election",
    "ReassignmentsAsked": "a client asked to reassign partitions",
    "BrokerUnreachable": "a broker was out of the controller's reach for too long",
    "BrokerReached": "a broker can be reached again",
    "DeletionCancelled": "an operator cancelled the deletion",
    "ReplicaGivenUp": "an operator gave up a broker's copies",
    "TopicArchived": "the topic was archived, ready to be deleted",
}
_ONE_EVENT_MS: Final = 100
_BORN: Final = frozenset({"created", "New", "Online"})  # one of these is in any part of a creation
_ON_BROKER: Final = re.compile(r" on broker (\d+)\Z")
# What ledgers of earlier controllers call three of them.
_FORMER: Final[Mapping[str, str]] = {
    "MovesRequested": "ReassignmentsRequested",
    "MovesAsked": "ReassignmentsAsked",
    "ReplicaForgotten": "ReplicaGivenUp",
}


@app.command()
def story(
    topic: str,
    last: Annotated[int, Option("-n", help="only the last N decisions; 0 = all", min=0)] = 0,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Print every decision the controllers made about a topic, and why, oldest first.

    Example: klamm story orders -n 20
    """
    foreign: set[int] = set()
    records = run(bootstrap_server, lambda admin: _told(admin, topic, foreign))[-last:]
    if foreign:
        named = ", ".join(map(str, sorted(foreign)))
        say(
            f"no story from broker {named}, not klamm's: what it decided as the controller is "
            "missing here",
            to=sys.stderr,
        )
    if output is Output.JSON:
        print_json(records)
    elif records:
        say(*tell(records))
    else:
        say(f"no controller has recorded a decision about topic {topic!r}")


async def _told(admin: Admin, topic: str, foreign: set[int]) -> list[Record]:
    """The decisions about a topic that is there, or that was."""
    found = await gather(admin, topic, foreign)
    if not found and topic not in await admin.topics():
        raise NotThere(f"there is no topic {topic!r}, and no controller remembers one")
    return found


async def gather(admin: Admin, topic: str, foreign: set[int]) -> list[Record]:
    """The decisions about the topic, in order: from running brokers, and from the ledger topic.

    Brokers that keep no record, for they are not klamm's, are put into `foreign`.
    """
    found: dict[tuple[int, int], Record] = {}
    for record in await decisions_about(admin, topic):
        found[record["controller_epoch"], record["sequence"]] = record
    answers = await admin.ask_brokers(PrivateKey.STORY, {"topic": topic}, foreign=foreign)
    for broker, answer in answers.items():
        refuse(answer["error_code"], f"broker {broker}", answer.get("error_message"))
        for record in answer["entries"]:
            found[record["controller_epoch"], record["sequence"]] = record
    return [record for _, record in sorted(found.items())]


def tell(records: Iterable[Record]) -> Iterator[str]:
    """A heading for each cause, then the transitions it led to, equal ones on one line.

    A line with the date stands before the first, and wherever another day begins.
    """
    day = ""
    for group in _by_cause(records):
        today = time.strftime("%Y-%m-%d", time.localtime(int(group[0]["time_ms"]) // 1000))
        if today != day:
            yield today
            day = today
        yield f"{_clock(int(group[0]['time_ms']))}  {_heading(group)}{_asked_by(group[0])}"
        for (before, after, why, kind), alike in groupby(group, key=_transition):
            subjects = [str(record["subject"]) for record in alike]
            because = f" ({why})" if why else ""
            yield f"              {_list(subjects, kind)}: {before} -> {after}{because}"


def _by_cause(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Neighbours with one cause. A decision that took some milliseconds stays in one piece."""
    group: list[Record] = []
    for record in records:
        if group and not _belongs(record, group[-1]):
            yield group
            group = []
        group.append(record)
    if group:
        yield group


def _belongs(record: Record, before: Record) -> bool:
    names = ("controller_epoch", "cause", "by")
    is_same = all(record.get(name) == before.get(name) for name in names)
    return is_same and abs(int(record["time_ms"]) - int(before["time_ms"])) < _ONE_EVENT_MS


def _asked_by(record: Record) -> str:
    """The requester, where the controller knew one."""
    by = record.get("by")
    return f", asked by {by}" if by else ""


def _heading(group: list[Record]) -> str:
    """The cause in words, with the brokers where the transitions name them."""
    cause = str(group[0]["cause"])
    if cause == "BrokersChanged":
        went = _brokers(group, ("Offline",))
        came = _brokers(group, ("Online",))
        if went or came:
            said = (_did(went, "went down"), _did(came, "came back"))
            return ", ".join(filter(None, said))
    if cause == "TopicsChanged" and any(record["after"] in _BORN for record in group):
        return "the topic was created"
    return CAUSES.get(_FORMER.get(cause, cause), cause)


def _brokers(group: list[Record], states: tuple[str, ...]) -> list[str]:
    """The brokers whose replicas went into one of these states."""
    named = (_ON_BROKER.search(str(r["subject"])) for r in group if r["after"] in states)
    return sorted({match[1] for match in named if match}, key=int)


def _did(brokers: list[str], what: str) -> str:
    if not brokers:
        return ""
    return f"broker{'s' * (len(brokers) > 1)} {', '.join(brokers)} {what}"


def _transition(record: Record) -> tuple[str, str, str, str]:
    """The things that records on one line share; partitions and replicas never share one."""
    kind = "replicas" if _ON_BROKER.search(str(record["subject"])) else "partitions"
    return str(record["before"]), str(record["after"]), str(record.get("why") or ""), kind


def _list(subjects: list[str], kind: str) -> str:
    """Few in full, many by their first and number."""
    if len(subjects) <= 4:
        return ", ".join(subjects)
    return f"{subjects[0]}, {subjects[1]} and {len(subjects) - 2} more {kind}"


def _clock(time_ms: int) -> str:
    seconds, millis = divmod(time_ms, 1000)
    return time.strftime("%H:%M:%S", time.localtime(seconds)) + f".{millis:03}"
