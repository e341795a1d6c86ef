"""Keeps watches: which session waits for which path."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from klamm.store.port import Hint, TreeHint, Unwatch
from klamm.store.tree import Touched


@dataclass(slots=True, eq=False)
class _Watch:
    session: int
    hint: Hint
    live: bool = True

    def __call__(self) -> None:
        # It may have been taken off since the loop was asked to call it.
        if self.live:
            self.hint()


@dataclass(slots=True, eq=False)
class _TreeWatch:
    session: int
    path: str
    hint: TreeHint

    def hear(self, paths: Iterable[str]) -> None:
        below = self.path.rstrip("/") + "/"
        if own := [path for path in paths if path == self.path or path.startswith(below)]:
            self.hint(own)


class _Register:
    """The watches of one kind, by path."""

    def __init__(self) -> None:
        self._by_path: dict[str, list[_Watch]] = {}

    def add(self, path: str, watch: _Watch) -> Unwatch:
        self._by_path.setdefault(path, []).append(watch)

        def unwatch() -> None:
            if watch.live:
                watch.live = False
                self._remove(path, watch)

        return unwatch

    @property
    def paths(self) -> Iterable[str]:
        return self._by_path.keys()

    def at(self, paths: Iterable[str]) -> Iterable[_Watch]:
        if not self._by_path:
            return
        for path in paths:
            yield from self._by_path.get(path, ())

    def remove_session(self, session: int) -> None:
        for path, watches in tuple(self._by_path.items()):
            for watch in tuple(watches):
                if watch.session == session:
                    watch.live = False
                    self._remove(path, watch)

    def _remove(self, path: str, watch: _Watch) -> None:
        watches = self._by_path[path]
        watches.remove(watch)
        if not watches:
            del self._by_path[path]


class Watches:
    """The watches of all sessions of a store."""

    def __init__(self) -> None:
        self._nodes = _Register()
        self._children = _Register()
        self._trees: list[_TreeWatch] = []

    def add_node(self, session: int, path: str, hint: Hint) -> Unwatch:
        return self._nodes.add(path, _Watch(session, hint))

    def add_children(self, session: int, path: str, hint: Hint) -> Unwatch:
        return self._children.add(path, _Watch(session, hint))

    def add_tree(self, session: int, path: str, hint: TreeHint) -> Unwatch:
        watch = _TreeWatch(session, path, hint)
        self._trees.append(watch)
        return lambda: self._trees.remove(watch) if watch in self._trees else None

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that somebody watches."""
        trees = (tree.path for tree in self._trees)
        return tuple(dict.fromkeys((*self._nodes.paths, *self._children.paths, *trees)))

    def watched(self, path: str) -> bool:
        return path in self._nodes.paths or path in self._children.paths or self.is_tree(path)

    def is_tree(self, path: str) -> bool:
        """Whether somebody watches all that is below this path."""
        return any(tree.path == path for tree in self._trees)

    def remove_session(self, session: int) -> None:
        self._nodes.remove_session(session)
        self._children.remove_session(session)
        self._trees = [tree for tree in self._trees if tree.session != session]

    def tell_trees(self, paths: Iterable[str]) -> None:
        """Give the hints of whole trees, here and now."""
        for tree in tuple(self._trees):
            tree.hear(paths)

    def hints(self, touched: Touched) -> Iterable[Callable[[], None]]:
        """The watches to call, each once however many of its nodes' changes came together."""
        yield from dict.fromkeys(self._nodes.at(touched.nodes))
        yield from dict.fromkeys(self._children.at(touched.parents))
