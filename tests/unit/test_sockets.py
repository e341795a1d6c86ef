"""Connections inside one machine are not paced; all others are left as they are."""

import socket
from dataclasses import dataclass, field

import pytest

from klamm import sockets

_CONGESTION = getattr(socket, "TCP_CONGESTION", None)
pytestmark = pytest.mark.skipif(_CONGESTION is None, reason="this system has no such choice")


@dataclass
class _Socket:
    """What `tune` asks of a socket."""

    here: str
    there: str
    congestion: bytes = b"bbr"
    may_choose: bool = True
    is_gone: bool = False
    set_to: dict[int, object] = field(default_factory=dict)

    def getsockname(self) -> tuple[str, int]:
        return self.here, 9092

    def getpeername(self) -> tuple[str, int]:
        if self.is_gone:
            raise OSError(107, "not connected")
        return self.there, 50000

    def getsockopt(self, _: int, option: int, __: int) -> bytes:
        assert option == _CONGESTION
        return self.congestion.ljust(16, b"\0")

    def setsockopt(self, _: int, option: int, value: object) -> None:
        if option == _CONGESTION and not self.may_choose:
            raise PermissionError
        self.set_to[option] = value


def _chosen(sock: _Socket) -> object:
    sockets.tune(sock)  # type: ignore[arg-type]
    assert sock.set_to[socket.TCP_NODELAY] == 1
    return sock.set_to.get(_CONGESTION or -1)


@pytest.mark.parametrize(
    ("here", "there"),
    [("127.0.0.1", "127.0.0.1"), ("10.0.0.7", "10.0.0.7"), ("127.0.0.1", "127.0.1.1")],
)
def test_a_connection_inside_the_machine_is_not_paced(here: str, there: str) -> None:
    assert _chosen(_Socket(here, there)) == b"reno"


def test_a_connection_to_another_machine_keeps_the_systems_control() -> None:
    assert _chosen(_Socket("10.0.0.7", "10.0.0.8")) is None


def test_a_control_that_does_not_pace_is_kept() -> None:
    assert _chosen(_Socket("127.0.0.1", "127.0.0.1", congestion=b"cubic")) is None


def test_a_system_that_forbids_the_choice_is_no_fault() -> None:
    assert _chosen(_Socket("127.0.0.1", "127.0.0.1", may_choose=False)) is None


def test_a_peer_that_has_left_is_no_fault() -> None:
    assert _chosen(_Socket("127.0.0.1", "127.0.0.1", is_gone=True)) is None


def test_the_system_takes_the_choice() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(address) as one:
            sockets.tune(one)
            assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            name = one.getsockopt(socket.IPPROTO_TCP, _CONGESTION or 0, 16)
            assert not name.startswith(b"bbr")
