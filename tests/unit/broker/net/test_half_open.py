"""Floods of strangers drown themselves."""

from __future__ import annotations

from klamm.broker.net.half_open import HalfOpen


class Stranger:
    def __init__(self) -> None:
        self.is_gone = False

    def abort(self) -> None:
        self.is_gone = True


def test_of_one_address_the_oldest_goes() -> None:
    looked_at = HalfOpen(lambda: 100, lambda: 2)
    crowd = [Stranger() for _ in range(4)]
    for one in crowd:
        looked_at.joined(one, "a")
    assert [one.is_gone for one in crowd] == [True, True, False, False]
    assert looked_at.count == 2


def test_of_all_addresses_the_one_with_the_most_pays() -> None:
    looked_at = HalfOpen(lambda: 4, lambda: 10)
    honest = Stranger()
    looked_at.joined(honest, "honest")
    crowd = [Stranger() for _ in range(5)]
    for one in crowd:
        looked_at.joined(one, "flood")
    assert not honest.is_gone
    assert [one.is_gone for one in crowd] == [True, True, False, False, False]


def test_who_leaves_is_forgotten_once() -> None:
    looked_at = HalfOpen(lambda: 1, lambda: 1)
    one = Stranger()
    looked_at.joined(one, "a")
    looked_at.left(one, "a")
    looked_at.left(one, "a")
    assert looked_at.count == 0
    looked_at.joined(Stranger(), "b")
    assert not one.is_gone
