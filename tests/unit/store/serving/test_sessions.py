"""Sessions with a hand-moved clock."""

from __future__ import annotations

import pytest

from klamm.store.serving.sessions import Sessions


@pytest.fixture
def sessions() -> Sessions[str]:
    return Sessions(b"key", tick_ms=500)


def _due(sessions: Sessions[str], *moments_ms: int) -> list[list[int]]:
    return [[session.id for session in sessions.tick(now_ms)] for now_ms in moments_ms]


def test_a_session_is_due_at_the_first_tick_behind_its_timeout(sessions: Sessions[str]) -> None:
    sessions.add(1, 1000, now_ms=100)
    assert _due(sessions, 500, 1000, 1500) == [[], [], [1]]


def test_a_session_that_is_heard_of_lives_on(sessions: Sessions[str]) -> None:
    session = sessions.add(1, 1000, now_ms=0)
    for now_ms in range(500, 20_000, 500):
        assert _due(sessions, now_ms) == [[]]
        sessions.touch(session, now_ms)


def test_late_ticks_give_everybody_one_more(sessions: Sessions[str]) -> None:
    sessions.add(1, 1000, now_ms=0)
    assert _due(sessions, 500) == [[]]
    # The process slept: what clients said meanwhile has not been read yet.
    assert _due(sessions, 60_000, 60_500) == [[], [1]]


def test_a_closing_session_is_due_no_more_and_nobodys(sessions: Sessions[str]) -> None:
    session = sessions.add(1, 1000, now_ms=0)
    password = sessions.password(1)
    assert sessions.claimed(1, password) is session
    session.is_closing = True
    assert sessions.claimed(1, password) is None
    assert _due(sessions, 500, 1000, 1500, 2000) == [[], [], [], []]


def test_a_password_is_of_one_session_and_one_key(sessions: Sessions[str]) -> None:
    sessions.add(1, 1000, now_ms=0)
    assert len({sessions.password(1), sessions.password(2), Sessions(b"x", 1).password(1)}) == 3
    for wrong in (b"", bytes(16), sessions.password(2), sessions.password(1)[:15]):
        assert sessions.claimed(1, wrong) is None


def test_a_stranger_without_a_connection_makes_room(sessions: Sessions[str]) -> None:
    trusted, connected, first, _ = [sessions.add(id, 1000, now_ms=0) for id in (1, 2, 3, 4)]
    trusted.is_trusted = True
    connected.connection = "here"
    assert sessions.least_missed() is first
