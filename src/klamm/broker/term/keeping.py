"""Topics that are kept for a while and then go: the old ones of a re-partitioning.

A topic that has klamm.kept.until.ms is marked for deletion when that time has come, as if somebody
had asked for it, provided that it is frozen: what clients write to is never taken for a leftover.
The marker is made behind the controller's fence, and only if neither the topic nor its settings
have changed since they were read, so that whoever prolongs the time a moment before is heeded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from klamm.model.settings.topic import FROZEN, KEPT_UNTIL, is_true, kept_until
from klamm.store import layout
from klamm.store.port import Check, Create, Op, Result, Session

Fenced = Callable[[Sequence[Op]], Awaitable[tuple[Result, ...]]]
BY = f"the setting {KEPT_UNTIL}"


async def mark_expired(
    session: Session,
    fenced: Fenced,
    topics: Iterable[str],
    now_ms: int,
    note: Callable[[str], None],
) -> None:
    """Marks those of these topics whose time is over for deletion; each is noted before."""
    for topic in topics:
        paths = (layout.topic_path(topic), layout.topic_config_path(topic))
        node, config = await session.get_many(paths)
        own = layout.decode_config(config.data) if config is not None else None
        if node is None or config is None or own is None:
            continue
        until_ms = kept_until(own)
        if until_ms is None or until_ms > now_ms or not is_true(own.get(FROZEN)):
            continue
        versions = (node.stat.version, config.stat.version)
        checks = [Check(path, version) for path, version in zip(paths, versions, strict=True)]
        note(topic)
        # Where something has changed meanwhile nothing is marked, and it is looked at again.
        await fenced([*checks, Create(layout.delete_topic_path(topic))])
