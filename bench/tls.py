"""What TLS costs: the same records over PLAINTEXT and over SSL, by one broker in one run.

    python bench/run.py tls-produce tls-consume tls-produce-large tls-consume-large tls-connections

Both listeners are the same process on the same files, in turns, so the ratios say more than the
numbers. A client's own TLS is part of the speed: where `client_cores` is near 1, it was the limit.
Handshakes are those of a client that trusts and shows nothing, with the keys that `klamm up
--secure` makes (P-256), TLS 1.3.
"""

from __future__ import annotations

import resource
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import librdkafka
from bytes import DEFAULT, create, drain, fill
from connections import greet
from measure import Case, Figures, Meter, Running, cluster, resident_mb

from klamm.secured.authority import Authority

CONNECTIONS = 1_000
HANDSHAKES = 500
_KB_PER_MB = 1024


@dataclass(frozen=True, slots=True)
class Both:
    """A broker with two listeners."""

    running: Running
    encrypted: str
    authority: str

    @property
    def over_tls(self) -> Mapping[str, object]:
        return {"security.protocol": "SSL", "ssl.ca.location": self.authority}

    def ways(self) -> Iterator[tuple[str, str, Mapping[str, object]]]:
        """Name, address and settings of each way in."""
        yield "plain", self.running.bootstrap, {}
        yield "tls", self.encrypted, self.over_tls


@contextmanager
def both() -> Iterator[Both]:
    """One broker that listens on PLAINTEXT and on SSL."""
    with TemporaryDirectory(prefix="klamm-bench-tls-") as place, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        now = datetime.now(UTC)
        authority = Authority.make("bench", now)
        trusted, shown = Path(place, "ca.pem"), Path(place, "broker.pem")
        trusted.write_text(authority.certificate)
        shown.touch(0o600)
        shown.write_text(authority.issue("broker", now, hosts=["127.0.0.1"]).both)
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:{port}",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(shown),
        }
        flags = [word for pair in settings.items() for word in ("-X", "=".join(pair))]
        with cluster(*flags, brokers=1) as running:
            yield Both(running, f"127.0.0.1:{port}", str(trusted))


TURNS = 3


def produce(total: int, size: int = 1000) -> Figures:
    """Records over either in turns, acks=1. librdkafka makes two records of TLS of each of 1 KB."""
    with both() as pair:
        create(pair.running, 6, 1)
        return _in_turns(
            pair,
            total,
            lambda at, more: fill(at, total // TURNS, size, "1", {**DEFAULT, **more}),
        )


def consume(total: int, size: int = 1000) -> Figures:
    """The same records, read over either in turns."""
    with both() as pair:
        create(pair.running, 6, 1)
        fill(pair.running.bootstrap, total // TURNS, size, "1", DEFAULT)
        librdkafka.destroyer()
        return _in_turns(pair, total, lambda at, more: drain(at, total // TURNS // size, more))


def _in_turns(pair: Both, total: int, work: Callable[[str, Mapping[str, object]], None]) -> Figures:
    """Do the same over either, again and again: what else the machine does hits both alike."""
    meters: dict[str, list[Meter]] = {}
    for _ in range(TURNS):
        for name, bootstrap, more in pair.ways():
            with Meter(pair.running.pid) as meter:
                work(bootstrap, more)
            meters.setdefault(name, []).append(meter)
    found: Figures = {}
    for name, turns in meters.items():
        whole = Meter(pair.running.pid)
        whole.wall = sum(turn.wall for turn in turns)
        whole.user = sum(turn.cpu for turn in turns)
        whole.own_cpu = sum(turn.own_cpu for turn in turns)
        found |= _named(name, whole.rates(total))
    return found | _ratios(found)


def _named(way: str, rates: Figures) -> Figures:
    return {f"{way}_{name}": value for name, value in rates.items()}


def _ratios(found: Figures) -> Figures:
    return {
        "tls_to_plain_speed": found["tls_mb_per_s"] / found["plain_mb_per_s"],
        "tls_to_plain_broker_cpu": (
            found["plain_mb_per_broker_cpu_s"] / found["tls_mb_per_broker_cpu_s"]
        ),
        "tls_to_plain_client_cpu": (
            found["plain_mb_per_client_cpu_s"] / found["tls_mb_per_client_cpu_s"]
        ),
        # A client that is the limit both times has this with any broker, however fast.
        "tls_to_plain_by_client_alone": (
            found["tls_mb_per_client_cpu_s"] / found["plain_mb_per_client_cpu_s"]
        ),
    }


def connections(count: int = CONNECTIONS) -> Figures:
    """Open connections over either: memory of each, and the time for its first requests."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with both() as pair:
        context = ssl.create_default_context(cafile=pair.authority)
        found: Figures = {"connections": float(count)}
        for name, address, more in pair.ways():
            with ExitStack() as open_ones:
                _open(open_ones, address, context if more else None)
                before = resident_mb(pair.running.pid)
                with Meter(pair.running.pid) as meter:
                    for _ in range(count):
                        _open(open_ones, address, context if more else None)
                after = resident_mb(pair.running.pid)
            found[f"{name}_kb_per_connection"] = (after - before) * _KB_PER_MB / count
            found[f"{name}_broker_cpu_us_each"] = meter.cpu / count * 1e6
            found[f"{name}_per_s"] = count / meter.wall
        shaking = _shaking(pair, context)
        return found | {"handshake_broker_cpu_us": shaking}


def _open(stack: ExitStack, address: str, context: ssl.SSLContext | None) -> None:
    host, port = address.split(":")
    peer = stack.enter_context(socket.create_connection((host, int(port))))
    if context is not None:
        peer = stack.enter_context(context.wrap_socket(peer, server_hostname=host))
    greet(peer)


def _shaking(pair: Both, context: ssl.SSLContext) -> float:
    """The broker's time for a connection with a handshake and nothing else, less a plain one."""
    costs = []
    for _, address, more in pair.ways():
        host, port = address.split(":")
        with Meter(pair.running.pid) as meter:
            for _ in range(HANDSHAKES):
                with ExitStack() as stack:
                    peer = stack.enter_context(socket.create_connection((host, int(port))))
                    if more:
                        stack.enter_context(context.wrap_socket(peer, server_hostname=host))
        costs.append(meter.cpu / HANDSHAKES * 1e6)
    return costs[1] - costs[0]


CASES = (
    Case(
        "tls-produce", "produce 1 KB records over PLAINTEXT and SSL", lambda: produce(400_000_000)
    ),
    Case("tls-consume", "consume them over PLAINTEXT and SSL", lambda: consume(300_000_000)),
    Case(
        "tls-produce-large",
        "produce 100 KB records over PLAINTEXT and SSL",
        lambda: produce(1_200_000_000, 100_000),
    ),
    Case(
        "tls-consume-large",
        "consume 100 KB records over PLAINTEXT and SSL",
        lambda: consume(1_200_000_000, 100_000),
    ),
    Case("tls-connections", f"{CONNECTIONS} open connections over either", connections),
)
