"""The names of each node's children.

Most nodes with children have one: above each partition's state is a node for the partition. An only
child is a frozen set that all such parents share; a set of its own is as large as the rest of a
node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

Names = set[str] | frozenset[str]


@lru_cache(maxsize=1024)
def _alone(name: str) -> frozenset[str]:
    return frozenset((name,))


class ChildNames:
    """The names below each parent that has any."""

    __slots__ = ("_below",)

    def __init__(self, paths: Iterable[str]) -> None:
        self._below: dict[str, Names] = {}
        for path in paths:
            above, _, name = path.rpartition("/")
            if name:  # all but the root
                self.add(above or "/", name)

    def __iter__(self) -> Iterator[str]:
        """The nodes that have children."""
        return iter(self._below)

    def of(self, path: str) -> Collection[str]:
        """The names of a node's children, in no order."""
        return self._below.get(path, ())

    def add(self, above: str, name: str) -> None:
        """A node has another child."""
        known = self._below.get(above)
        if known is None:
            self._below[above] = _alone(name)
        elif isinstance(known, set):
            known.add(name)
        else:
            self._below[above] = {*known, name}

    def remove(self, above: str, name: str) -> None:
        """A child is gone."""
        known = self._below[above]
        if isinstance(known, set) and len(known) > 1:
            known.remove(name)
        else:
            assert known == {name}, f"{above} has no child {name}"
            del self._below[above]
