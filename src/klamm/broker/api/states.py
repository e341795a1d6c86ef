"""States (private, key 1014): where every topic, partition and replica is in its life.

Asked with `{"topics": [names] or null, "after": name or null, "limit": partitions}` it answers
`topics` in the order of their names, each with its state and its partitions, and `more` where
others follow behind the last one. With `"machines": true` it also has the legal transitions of the
three state machines. `place` is a place in the ledger: what is behind it may be in the answer.

Asked with `{"place": [controller_epoch, sequence], "wait_ms": n}` it answers as soon as something
was decided behind that place: the `lines` of the ledger, the `topics` they are about as they are
now, and the names of those that are `gone`. `gap` is true where the lines are not at hand any more,
or the place is of another term: then everything has to be asked for anew.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

from klamm.broker.net import asked
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.controller.events import StatesAsked
from klamm.controller.questions.survey import PartitionStates, TopicStates
from klamm.controller.states.tables import MACHINES
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.model.names import id_text
from klamm.protocol import private
from klamm.protocol.private import PrivateKey
from klamm.security.authorization.apis import need_of

_CLUSTER: Final = need_of(PrivateKey.STATES, "cluster")

_PARTITIONS: Final = 2_000
_PARTITIONS_MAX: Final = 20_000
_LINES: Final = 1_000
_TOPICS: Final = 200  # as many of those that lines are about; of more, everything is asked anew
_WAIT_MS_MAX: Final = 30_000
_LOOK_S: Final = 0.5  # how soon a waiting question notices that the controller is another


async def handle(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    parts.access.demand(context, _CLUSTER)
    if not parts.is_controller:
        raise RequestRefused(ErrorCode.NOT_CONTROLLER)
    place = request.get("place")
    if place is None:
        return await _pictured(parts, request)
    if not (isinstance(place, list) and [type(each) for each in place] == [int, int]):
        raise RequestRefused(
            ErrorCode.INVALID_REQUEST, "place must be a controller epoch and a sequence number"
        )
    wait_ms = min(max(asked.number(request, "wait_ms", 0), 0), _WAIT_MS_MAX)
    await _until_news(parts, (place[0], place[1]), wait_ms / 1000)
    return await _news(parts, (place[0], place[1]))


async def _pictured(parts: Parts, request: Mapping[str, Any]) -> dict[str, Any]:
    names = None if request.get("topics") is None else tuple(asked.texts(request, "topics"))
    after = None if request.get("after") is None else asked.text(request, "after")
    limit = min(max(asked.number(request, "limit", _PARTITIONS), 1), _PARTITIONS_MAX)
    # Read before the question is asked: the answer may know more than its place says, never less.
    place = parts.controller.ledger.place
    found = await parts.controller.submit(StatesAsked(names, after, limit))
    answer: dict[str, Any] = {
        "error_code": ErrorCode.NONE,
        "place": place,
        "topics": [_topic(topic) for topic in found.topics],
        "more": found.more,
    }
    if request.get("machines"):
        answer["machines"] = machines()
    return answer


async def _until_news(parts: Parts, place: tuple[int, int], wait_s: float) -> None:
    """Waits for a decision behind a place, for so long at most."""
    ledger = parts.controller.ledger
    news = asyncio.Event()
    unfollow = ledger.follow(news.set)
    try:
        async with asyncio.timeout(wait_s):
            while ledger.place == place and parts.is_controller:
                try:
                    async with asyncio.timeout(_LOOK_S):
                        await news.wait()
                except TimeoutError:
                    pass
                news.clear()
    except TimeoutError:
        pass
    finally:
        unfollow()
    if not parts.is_controller:
        raise RequestRefused(ErrorCode.NOT_CONTROLLER)


async def _news(parts: Parts, place: tuple[int, int]) -> dict[str, Any]:
    epoch, sequence = place
    ledger = parts.controller.ledger
    here = ledger.place
    lines = ledger.since(sequence, _LINES) if epoch == here[0] else None
    touched: list[str] = []
    if lines is not None:
        touched = list(dict.fromkeys(name for line in lines if (name := json.loads(line)["topic"])))
    if lines is None or len(touched) > _TOPICS:
        return {"error_code": ErrorCode.NONE, "place": here, "gap": True}
    topics: tuple[TopicStates, ...] = ()
    if touched:
        asked_for = StatesAsked(tuple(touched), None, _PARTITIONS_MAX)
        topics = (await parts.controller.submit(asked_for)).topics
    there = {topic.name for topic in topics}
    return {
        "error_code": ErrorCode.NONE,
        "place": (epoch, sequence + len(lines)),
        "gap": False,
        "lines": private.Written(f"[{','.join(lines)}]".encode()),
        "topics": [_topic(topic) for topic in topics],
        "gone": [name for name in touched if name not in there],
    }


def machines() -> list[dict[str, Any]]:
    """The three tables: states, and every legal transition with its rule."""
    return [
        {
            "entity": machine.entity,
            "states": [str(state) for state in machine.states],
            "never": str(machine.never),
            "transitions": [
                {"before": str(before), "after": str(after), "rule": rule.__name__}
                for (before, after), rule in machine.transitions.items()
            ],
            "found": sorted(map(str, machine.found)),
        }
        for machine in MACHINES
    ]


def _topic(topic: TopicStates) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": id_text(topic.id),
        "state": topic.state,
        "partitions": [_partition(partition) for partition in topic.partitions],
    }


def _partition(partition: PartitionStates) -> dict[str, Any]:
    leadership = partition.leadership
    return {
        "index": partition.index,
        "state": partition.state,
        "leader": leadership.leader if leadership else -1,
        "leader_epoch": leadership.leader_epoch if leadership else -1,
        "isr": leadership.isr if leadership else (),
        "replicas": partition.assignment.replicas,
        "adding": partition.assignment.adding,
        "removing": partition.assignment.removing,
        "replica_states": partition.replica_states,
    }
