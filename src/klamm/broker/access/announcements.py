"""Announcements: numbered nodes below a root that name what has changed.

Every broker reads those it has not read yet and looks at what they name. They are swept away after
a quarter of an hour by whoever comes first; whoever was away for longer comes back with a new
session, and reads everything.
"""

from __future__ import annotations

from typing import Final

from klamm.store import layout
from klamm.store.port import Delete, Session

_LIFE_MS: Final = 15 * 60 * 1000


class Announcements:
    """The announcements below one root, as far as this broker has read them."""

    def __init__(self, root: str) -> None:
        self.root: Final = root
        self._last = -1
        self._made_ms: dict[str, int] = {}

    async def skip(self, session: Session) -> None:
        """Take those that are there for read: everything is about to be read after them."""
        self._last = -1
        await self.news(session)

    async def news(self, session: Session) -> list[bytes | None]:
        """The data of those that came since the last look, in their order."""
        names = [n for n in await session.children(self.root) or () if n[-10:].isdecimal()]
        new = sorted((n for n in names if layout.sequence(n) > self._last), key=layout.sequence)
        nodes = await session.get_many([f"{self.root}/{name}" for name in new])
        found = []
        for name, node in zip(new, nodes, strict=True):
            if node is not None:
                self._made_ms[name] = node.stat.ctime_ms
                found.append(node.data)
        if new:
            self._last = layout.sequence(new[-1])
        return found

    async def sweep(self, session: Session, now_ms: int) -> None:
        """Remove the old ones. Other brokers try the same: one that is gone is no surprise."""
        old = [name for name, made_ms in self._made_ms.items() if now_ms - made_ms > _LIFE_MS]
        if old:
            await session.multis([Delete(f"{self.root}/{name}")] for name in old)
        for name in old:
            del self._made_ms[name]
