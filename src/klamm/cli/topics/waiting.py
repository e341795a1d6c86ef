"""Explains what topics wait for; waits for deletions, completes or cancels them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final

from klamm.cli.facts import list_topics
from klamm.cli.times import clock_of
from klamm.client.aio.admin import Admin
from klamm.client.errors import refuse
from klamm.model.errors import ErrorCode, KlammError, RequestRefused
from klamm.model.settings.topic import KEPT_UNTIL
from klamm.protocol.private import PrivateKey

# One request waits for so long at most; then it is asked again, whoever is controller by then.
_ROUND_S: Final = 5.0
_LOOK_S: Final = 0.2
_UNTOLD: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNSUPPORTED_VERSION})
# The controller's words for a halted deletion, and for waits that --forget-broker ends.
_HALTED: Final = "halted"
_GIVE_UP: Final = frozenset({"broker is down", "broker does not take the controller's requests"})

Explanation = dict[str, Any]


async def explain(admin: Admin, topic: str) -> Explanation:
    """The controller's explanation of what a topic waits for."""
    answer = await admin.ask_controller(PrivateKey.EXPLAIN, {"topic": topic})
    return {name: value for name, value in answer.items() if name != "error_code"}


async def cancel_deletion(admin: Admin, topic: str) -> None:
    """Call a deletion off."""
    await admin.ask_controller(PrivateKey.CANCEL_DELETION, {"topic": topic})


async def mark(
    admin: Admin,
    names: Sequence[str],
    if_exists: bool,
    ids: Mapping[str, uuid.UUID] | None = None,
) -> list[str]:
    """Ask for a deletion without waiting for it; the topics that are on their way out now.

    A topic whose deletion hangs is in nobody's metadata any more; the controller knows it.
    """
    known = {topic.name for topic in await list_topics(admin)}
    hidden = {name: await standing(admin, name) for name in names if name not in known}
    for name, found in hidden.items():
        if found is TopicStanding.ABSENT and not if_exists:
            refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}", "it does not exist")
    living = [n for n in names if n in known or hidden[n] is TopicStanding.UNBORN]
    doomed = [(ids or {}).get(name, name) for name in living]
    for result in await admin.delete_topics(doomed, patience_ms=1) if doomed else ():
        if result.error_code != ErrorCode.REQUEST_TIMED_OUT:
            refuse(result.error_code, f"topic {result.name!r}", result.error_message)
    return [n for n in names if n in known or hidden[n] is not TopicStanding.ABSENT]


class TopicStanding(Enum):
    """The standing of a topic that no metadata shows."""

    ABSENT = auto()
    UNBORN = auto()  # it never had a leader
    DOOMED = auto()  # it is being deleted


async def standing(admin: Admin, topic: str) -> TopicStanding:
    """Ask the controller about a topic that is in no metadata."""
    try:
        is_doomed = (await explain(admin, topic))["deleting_since_ms"] is not None
    except RequestRefused as refusal:
        # A cluster that is not klamm's explains nothing, and deletes nothing that it hides.
        if refusal.code in _UNTOLD:
            return TopicStanding.ABSENT
        raise
    return TopicStanding.DOOMED if is_doomed else TopicStanding.UNBORN


async def forget(admin: Admin, names: Iterable[str], brokers: Iterable[int]) -> None:
    """Let deletions end without these brokers; they drop their copies when they are back."""
    for name in names:
        for broker in brokers:
            body = {"topic": name, "broker": broker}
            await admin.ask_controller(PrivateKey.FORGET_REPLICA, body)


async def until_gone(admin: Admin, names: Sequence[str], timeout_s: float) -> None:
    """Wait until nothing is left of topics; raises with what they wait for when time is over."""
    deadline, left = time.monotonic() + timeout_s, list(names)
    while left and (left_s := deadline - time.monotonic()) > 0:
        body = {"topics": left, "timeout_ms": int(min(left_s, _ROUND_S) * 1000)}
        left = (await admin.ask_controller(PrivateKey.AWAIT_DELETION, body))["left"]
    if left:
        now_ms = time.time_ns() // 1_000_000
        told = ["\n".join(tell(await explain(admin, name), now_ms)) for name in left]
        raise KlammError(
            "\n".join([f"not deleted after {timeout_s:g} s: {', '.join(left)}", *told])
        )


async def until_hidden(admin: Admin, names: Sequence[str]) -> None:
    """Wait until clients no longer see topics, or their deletion is halted."""
    deadline = admin.client.deadline(None)
    left = set(names)
    while left:
        left &= {topic.name for topic in await list_topics(admin)}
        left -= {explanation["topic"] for explanation in await halted(admin, left)}
        if left and not await deadline.pause(_LOOK_S):
            raise KlammError(
                f"the deletion of {', '.join(sorted(left))} goes on, but takes longer than usual; "
                "klamm topics explain --all says what it waits for"
            )


async def halted(admin: Admin, names: Iterable[str]) -> list[Explanation]:
    """Those of these topics whose deletion cannot go on as things are."""
    found = []
    for name in names:
        try:
            explanation = await explain(admin, name)
        except RequestRefused as refusal:
            # Gone by now, or the cluster is not klamm's and keeps such things to itself.
            if refusal.code not in _UNTOLD:
                raise
            continue
        if explanation["state"] == _HALTED:
            found.append(explanation)
    return found


def tell_halted(explanation: Explanation) -> Iterator[str]:
    """The lines that say whom a deletion waits for, and what ends the wait."""
    topic, reasons = explanation["topic"], explanation["waiting"]
    yield f"topic {topic} is marked for deletion, and the deletion waits:"
    seen = dict.fromkeys((reason["why"], reason["broker"]) for reason in reasons)
    for why, broker in seen:
        yield f"  {why}" if broker is None else f"  {why}: broker {broker}"
    down = sorted({r["broker"] for r in reasons if r["why"] in _GIVE_UP})
    if down:
        options = " ".join(f"--forget-broker {broker}" for broker in down)
        yield f"  to go on without: klamm topics delete {topic} {options}"
    yield f"  to know more: klamm topics explain {topic}"


async def explain_all(admin: Admin) -> list[Explanation]:
    """The explanations of all topics that wait for something."""
    found: list[Explanation] = []
    more = True
    while more:
        body = {"after": found[-1]["topic"]} if found else {}
        answer = await admin.ask_controller(PrivateKey.EXPLAIN, body)
        found += answer["topics"]
        more = answer["more"]
    return found


async def deleting(admin: Admin) -> list[dict[str, Any]]:
    """The topics that are on their way out."""
    now = await admin.ask_controller(PrivateKey.STATUS, {})
    return list(now["deletions"]["items"])


def tell(explanation: Explanation, now_ms: int) -> Iterator[str]:
    """An explanation for people: alike reasons once, with their partitions."""
    topic, deleting = explanation["topic"], explanation["deleting_since_ms"]
    if deleting is not None:
        yield f"{topic} is being deleted, since {_ago(deleting, now_ms)}"
    elif not explanation["waiting"]:
        yield f"{topic} is healthy"
    else:
        yield f"{topic} is degraded"
    if (until_ms := explanation.get("kept_until_ms")) is not None and deleting is None:
        yield f"  it is kept until {clock_of(until_ms)}, and then deleted if it is frozen"
        yield f"  to keep it for good: klamm configs unset -t {topic} {KEPT_UNTIL}"
    for reasons in _alike(explanation["waiting"]):
        one, since_ms = reasons[0], min(r["since_ms"] for r in reasons)
        earlier = " or earlier" if any(r["since_at_least"] for r in reasons) else ""
        where = _numbers("partition", [r["partition"] for r in reasons])
        if one["broker"] is not None:
            where += f" on broker {one['broker']}"
        yield f"  {one['what']} of {where}: {one['why']}"
        yield f"    since {_ago(since_ms, now_ms)}{earlier}"
        yield f"    until {one['until']}"


def _alike(reasons: Iterable[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    groups: dict[tuple[object, ...], list[Mapping[str, Any]]] = {}
    for reason in reasons:
        key = tuple(reason[name] for name in ("what", "broker", "why", "until"))
        groups.setdefault(key, []).append(reason)
    return list(groups.values())


def _numbers(noun: str, numbers: Sequence[int]) -> str:
    """`partition 3`, `partitions 1, 2, 5 and 40 more`."""
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    shown = ", ".join(map(str, numbers[:8]))
    more = f" and {len(numbers) - 8} more" if len(numbers) > 8 else ""
    return f"{noun}s {shown}{more}"


def _ago(time_ms: int, now_ms: int) -> str:
    """A time of day, and how long ago that is."""
    clock = time.strftime("%H:%M:%S", time.localtime(time_ms / 1000))
    seconds = max(now_ms - time_ms, 0) // 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{clock} ({seconds // size} {unit})"
    return f"{clock} ({seconds} s)"
