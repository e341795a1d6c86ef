"""A store in forty lines, to hold the real ones against, and plans of what to do to both.

The model copies everything for each multi and throws the copy away when an operation fails: too
slow to use and too simple to be wrong.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from hypothesis import strategies as st

from klamm.store.port import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    Node,
    Op,
    Outcome,
    Result,
    Session,
    SetData,
    Store,
)


@dataclass(frozen=True)
class ModelNode:
    data: bytes | None
    born: int
    changed: int
    owner: int | None = None  # the number of a session
    version: int = 0
    made: int = 0


@dataclass
class Model:
    nodes: dict[str, ModelNode] = field(default_factory=lambda: {"/": ModelNode(b"", 0, 0)})
    zxid: int = 0

    def multi(self, session: int, ops: Sequence[Op]) -> list[Outcome | str]:
        """For each operation the path it made or changed, or why it failed."""
        trial = copy.deepcopy(self)
        trial.zxid += 1
        answers: list[Outcome | str] = []
        for at, op in enumerate(ops):
            answer = trial.apply(session, op)
            if isinstance(answer, Outcome):
                rolled_back: list[Outcome | str] = [Outcome.ROLLED_BACK] * len(ops)
                rolled_back[at] = answer
                return rolled_back
            answers.append(answer)
        self.nodes, self.zxid = trial.nodes, trial.zxid
        return answers

    def apply(self, session: int, op: Op) -> Outcome | str:
        if isinstance(op, Create):
            return self.create(session, op)
        node = self.nodes.get(op.path)
        if node is None:
            return Outcome.NO_NODE
        if op.version not in (ANY_VERSION, node.version):
            return Outcome.BAD_VERSION
        if isinstance(op, SetData):
            self.nodes[op.path] = replace(
                node, data=op.data, version=node.version + 1, changed=self.zxid
            )
        if isinstance(op, Delete):
            if self.children(op.path):
                return Outcome.NOT_EMPTY
            del self.nodes[op.path]
        return op.path

    def create(self, session: int, op: Create) -> Outcome | str:
        above = op.path.rpartition("/")[0] or "/"
        parent = self.nodes.get(above)
        if parent is None:
            return Outcome.NO_NODE
        path = op.path + (f"{parent.made:010d}" if op.sequential else "")
        if path in self.nodes:
            return Outcome.NODE_EXISTS
        if parent.owner is not None:
            return Outcome.NO_CHILDREN_FOR_EPHEMERALS
        self.nodes[above] = replace(parent, made=parent.made + 1)
        owner = session if op.ephemeral else None
        self.nodes[path] = ModelNode(op.data, self.zxid, self.zxid, owner)
        return path

    def children(self, path: str) -> list[str]:
        above = path.rstrip("/") + "/"
        names = [name.removeprefix(above) for name in self.nodes if name.startswith(above)]
        return sorted(name for name in names if name and "/" not in name)

    def end(self, session: int | None) -> None:
        """One session ends; with None the whole store stops."""
        for path, node in tuple(self.nodes.items()):
            if node.owner is not None and session in (None, node.owner):
                del self.nodes[path]


@dataclass(frozen=True)
class Multis:
    session: int
    groups: list[list[Op]]


@dataclass(frozen=True)
class EndSession:
    session: int
    how: str


@dataclass(frozen=True)
class Restart:
    pass


Step = Multis | EndSession | Restart
SESSIONS: Final = 2
PATHS: Final = ("/a", "/b", "/a/x", "/a/y", "/a/x/z", "/a/s0000000000", "/a/s0000000002")

_path = st.sampled_from(PATHS)
_data = st.sampled_from([None, b"", b"1", b"22"])
_version = st.sampled_from([ANY_VERSION, ANY_VERSION, 0, 1, 2])
_op = st.one_of(
    st.builds(Create, _path, _data),
    st.builds(Create, _path, _data, ephemeral=st.booleans()),
    st.builds(Create, st.sampled_from(["/a/s", "/b/"]), _data, st.booleans(), st.just(True)),
    st.builds(SetData, _path, _data, _version),
    st.builds(Delete, _path, _version),
    st.builds(Check, _path, _version),
)
# Many short multis, so that most of them succeed and the trees get rich.
_groups = st.lists(st.lists(_op, min_size=1, max_size=3), min_size=1, max_size=6)
_session = st.integers(0, SESSIONS - 1)
_multis = st.builds(Multis, _session, _groups)
_end = st.builds(EndSession, _session, st.sampled_from(["close", "expire", "kill"]))

plans = st.lists(_multis | _multis | _end, min_size=1, max_size=12)
plans_with_restarts = st.lists(_multis | _multis | _end | st.just(Restart()), max_size=12)


class Comparison:
    """A store and the model, doing the same."""

    def __init__(self, store: Store, reopen: Callable[[], Awaitable[Store]] | None = None) -> None:
        self._store = store
        self._reopen = reopen
        self._model = Model()
        self._sessions: list[Session] = []
        self._zxids: dict[int, int] = {0: 0}  # the model's, and the store's for the same multi

    async def follow(self, plan: Sequence[Step]) -> None:
        """Do all of the plan and compare after each step."""
        self._sessions = [await self._store.connect() for _ in range(SESSIONS)]
        for step in plan:
            match step:
                case Multis(session, groups):
                    await self._multis(session, groups)
                case EndSession(session, how):
                    await getattr(self._sessions[session], how)()
                    self._model.end(session)
                    self._sessions[session] = await self._store.connect()
                case Restart():
                    assert self._reopen is not None
                    self._store = await self._reopen()
                    self._model.end(None)
                    self._sessions = [await self._store.connect() for _ in range(SESSIONS)]
            await self._compare()
        assert list(self._zxids.values()) == sorted(set(self._zxids.values())), "zxids must rise"

    async def _multis(self, number: int, groups: list[list[Op]]) -> None:
        answers = await self._sessions[number].multis(groups)
        for ops, results in zip(groups, answers, strict=True):
            expected = self._model.multi(number, ops)
            assert [_answer(op, r) for op, r in zip(ops, results, strict=True)] == [
                "" if isinstance(op, Check | Delete) and not isinstance(e, Outcome) else e
                for op, e in zip(ops, expected, strict=True)
            ], ops

    async def _compare(self) -> None:
        for session in self._sessions:
            paths = sorted({*PATHS, *self._model.nodes} - {"/"})
            for path, node in zip(paths, await session.get_many(paths), strict=True):
                self._compare_node(path, node)
            for path in (*paths, "/"):
                expected = tuple(self._model.children(path)) if path in self._model.nodes else None
                assert await session.children(path) == expected, path

    def _compare_node(self, path: str, node: Node | None) -> None:
        expected = self._model.nodes.get(path)
        if expected is None or node is None:
            assert (node, expected) == (None, None), path
            return
        owner = 0 if expected.owner is None else self._sessions[expected.owner].id
        assert node.data == expected.data, path
        assert node.stat.version == expected.version, path
        assert node.stat.ephemeral_owner == owner, path
        for model, real in ((expected.born, node.stat.czxid), (expected.changed, node.stat.mzxid)):
            assert self._zxids.setdefault(model, real) == real, path
        self._zxids = dict(sorted(self._zxids.items()))


def _answer(op: Op, result: Result) -> Outcome | str:
    if not result.ok:
        return result.outcome
    return "" if isinstance(op, Check | Delete) else result.path
