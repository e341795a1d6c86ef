"""Story (private, key 1000): what this broker decided while it was the controller.

Asked with `{"topic": name or null, "limit": how many of the latest}`; answers `entries`, oldest
first. With `"after": [controller_epoch, sequence]` it is the oldest behind that place instead,
which is how a reader takes a long story in pages; and with `"waiting": true` only what is not in
the ledger's topic yet (`ledger_topic`), which may be all of it. Any broker answers for itself:
who wants the whole story asks all of them and merges by (controller_epoch, sequence).

Lines about a topic are for whoever may describe it, all lines for whoever may describe the cluster.

A story may have millions of lines: a broker reads for one asker at a time, makes objects only of
lines it has to look into, and passes the others on as they were written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final

from klamm.broker.ledger.ledger import is_entry
from klamm.broker.net import asked
from klamm.broker.net.context import RequestContext
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode, RequestRefused
from klamm.protocol import private
from klamm.protocol.private import PrivateKey
from klamm.security.authorization.acls import CLUSTER_NAME
from klamm.security.authorization.apis import need_of

_LINE: Final = need_of(PrivateKey.STORY, "line")

_LIMIT: Final = 10_000


def _after(request: Mapping[str, Any]) -> tuple[int, int] | None:
    """The place behind which the story is wanted."""
    after = request.get("after")
    if after is None:
        return None
    if isinstance(after, list) and [type(each) for each in after] == [int, int]:
        return after[0], after[1]
    raise RequestRefused(
        ErrorCode.INVALID_REQUEST, "after must be a controller epoch and a sequence number"
    )


def _place(entry: Mapping[str, Any]) -> tuple[int, int]:
    return entry["controller_epoch"], entry["sequence"]


def _shown(parts: Parts, context: RequestContext) -> Callable[[Mapping[str, Any]], bool] | None:
    """The test of an entry for a caller who may not see all; None for one who may."""
    cluster, _ = _LINE.options
    if cluster.is_met(parts.access.permissions(context), CLUSTER_NAME):
        return None
    topics = parts.access.allowed(context, _LINE)
    # What is about no topic is about the cluster.
    return lambda entry: bool(entry["topic"]) and entry["topic"] in topics


def _without_requester(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry for who may see the topic and nothing else."""
    return {name: value for name, value in entry.items() if name != "by"}


async def handle(
    parts: Parts, context: RequestContext, request: Mapping[str, Any]
) -> dict[str, Any]:
    topic = asked.text(request, "topic") if request.get("topic") is not None else None
    limit = min(max(asked.number(request, "limit", _LIMIT) or _LIMIT, 0), _LIMIT)
    after = _after(request)
    is_shown = _shown(parts, context)

    def wanted() -> Iterable[bytes]:
        if after is None and not request.get("waiting") and is_shown is None:
            lines = deque(parts.controller.ledger.read_lines(topic), maxlen=limit)
            return filter(is_entry, lines)
        if request.get("waiting"):
            story: Iterable[dict[str, object]] = parts.ledger_topic.waiting()
        else:
            story = parts.controller.story(topic)
        if is_shown is not None:
            story = map(_without_requester, filter(is_shown, story))
        if after is None:
            return deque(map(private.encode, story), maxlen=limit)
        behind = (e for e in story if _place(e) > after)
        return map(private.encode, islice(behind, limit))

    async with parts.controller.story_turn:
        entries = await parts.in_worker(lambda: b",".join(wanted()))
    return {
        "error_code": ErrorCode.NONE,
        "broker": parts.id,
        "entries": private.Written(b"[" + entries + b"]"),
    }
