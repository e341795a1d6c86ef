"""Changes of the embedded store on their way to the disk.

A write is judged when its turn comes, in a draft of the tree, and concluded when the draft is on
the disk or will never be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from klamm.model.errors import StoreUnavailable
from klamm.store.port import Op, Result
from klamm.store.tree import Draft, Event


class Write:
    """A change on its way to the disk."""

    __slots__ = ("events", "zxid")

    is_end = False  # of a session: done whatever the disk says
    ops_count = 1

    def __init__(self) -> None:
        self.events: Sequence[Event] = ()  # what it did, in order
        self.zxid = 0  # 0: it changed nothing

    def draft(self, draft: Draft, now_ms: int) -> bool:
        """Judge it; False when it is not to be done at all."""
        raise NotImplementedError

    def conclude(self, failure: BaseException | None) -> None:
        """It is on the disk, or will never be."""
        raise NotImplementedError


class Front(Protocol):
    """The part that serves a store to other processes."""

    def published(self, writes: Sequence[Write], failure: BaseException | None) -> None:
        """Hear of writes that readers see from now on, or that the disk refused."""
        ...

    def lost(self) -> None:
        """Hear that nothing will be written any more."""
        ...


class WriteOwner(Protocol):
    """The session that a write belongs to."""

    @property
    def id(self) -> int: ...

    @property
    def ended(self) -> bool: ...


class LocalWrite(Write):
    """A multi, or with `ops` None the end of a session, of somebody in this process."""

    __slots__ = ("_ops", "_results", "_session", "done")

    def __init__(
        self,
        session: WriteOwner,
        ops: Sequence[Op] | None,
        done: asyncio.Future[tuple[Result, ...]],
    ) -> None:
        super().__init__()
        self._session = session
        self._ops = ops
        self._results: tuple[Result, ...] = ()
        self.done = done

    @property
    def is_end(self) -> bool:  # type: ignore[override]
        return self._ops is None

    @property
    def ops_count(self) -> int:  # type: ignore[override]
        return len(self._ops or ())

    def draft(self, draft: Draft, now_ms: int) -> bool:
        session = self._session
        if self._ops is None:
            draft.end_session(session.id)
        elif self.done.cancelled():
            return False
        elif session.ended:
            self.done.set_exception(StoreUnavailable("the session has expired"))
            return False
        else:
            self._results = draft.multi(self._ops, owner=session.id, now_ms=now_ms)
        return True

    def conclude(self, failure: BaseException | None) -> None:
        if self.done.cancelled():
            return
        if failure is None or self._ops is None:
            self.done.set_result(self._results)
        else:
            self.done.set_exception(failure)
