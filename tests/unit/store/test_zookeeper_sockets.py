"""Sockets on behalf of kazoo: what was read ahead is not forgotten, and not waited for."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from klamm.store.zookeeper_sockets import ReadAheadSocket, wait


@pytest.fixture
def pair() -> Iterator[tuple[ReadAheadSocket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ahead = ReadAheadSocket(ours)
    ahead.setblocking(False)
    yield ahead, theirs
    ahead.close()
    theirs.close()


Pair = tuple[ReadAheadSocket, socket.socket]


def test_pieces_come_in_order_from_one_read(pair: Pair) -> None:
    ours, theirs = pair
    theirs.send(b"four" + b"and the rest")
    assert ours.recv(4) == b"four"
    assert ours.pending() == 12
    theirs.send(b", and more")
    assert ours.recv(100) == b"and the rest"
    assert ours.pending() == 0
    assert ours.recv(100) == b", and more"
    with pytest.raises(BlockingIOError):
        ours.recv(1)
    theirs.close()
    assert ours.recv(1) == b""


def test_what_was_read_ahead_is_not_waited_for(pair: Pair) -> None:
    ours, theirs = pair
    one, other = socket.socketpair()
    with one, other:
        theirs.send(b"four and the rest")
        ours.recv(4)
        other.send(b"x")
        began = time.monotonic()
        assert wait([ours, one], [], 30) == ([ours, one], [], [])
        assert time.monotonic() - began < 10
        ours.recv(100)
        assert wait([ours, one], [], 30) == ([one], [], [])


def test_waiting_ends_with_nothing_or_with_the_end(pair: Pair) -> None:
    ours, theirs = pair
    assert wait([ours], [], 0.01) == ([], [], [])
    assert wait([], [ours], 1) == ([], [ours], [])
    theirs.close()
    assert wait([ours], [], 1) == ([ours], [], [])


def test_a_timeout_and_the_socket_itself_are_taken_over() -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(3.0)
    with theirs, ReadAheadSocket(ours) as ahead:
        assert ours.fileno() == -1
        assert ahead.gettimeout() == 3.0
