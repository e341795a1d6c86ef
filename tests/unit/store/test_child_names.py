"""Names by parent: the same as sets of their own, whatever comes and goes."""

from __future__ import annotations

import random

import pytest

from klamm.store.child_names import ChildNames


def test_it_says_what_sets_would_say() -> None:
    dice = random.Random(5)
    names, model = ChildNames(()), dict[str, set[str]]()
    for _ in range(2_000):
        above, name = dice.choice(("/a", "/b", "/")), dice.choice("xyz")
        known = model.setdefault(above, set())
        if name in known:
            names.remove(above, name)
            known.remove(name)
        else:
            names.add(above, name)
            known.add(name)
        assert set(names.of(above)) == known
        assert set(names) == {path for path, below in model.items() if below}


def test_only_children_of_one_name_are_held_once() -> None:
    names = ChildNames(["/", "/a", "/a/state", "/b", "/b/state"])
    assert sorted(names.of("/")) == ["a", "b"]
    assert names.of("/a") is names.of("/b")
    names.add("/a", "other")
    assert set(names.of("/b")) == {"state"}


def test_a_child_that_is_not_there_is_not_removed() -> None:
    names = ChildNames(["/a/x"])
    with pytest.raises(AssertionError, match="/a has no child y"):
        names.remove("/a", "y")
