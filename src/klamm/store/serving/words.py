"""The four-letter words: what a server tells of itself to whoever asks with netcat.

Pure: texts from a snapshot of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

# Clients decide by this what they may ask for: it is the ZooKeeper whose answers these are.
VERSION: Final = "3.8.4-klamm, built on 2024-02-12 22:16 UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionFacts:
    """One connection."""

    address: str  # host:port
    queued: int
    received: int
    sent: int
    session: int
    timeout_ms: int
    last_operation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """A server at one moment."""

    zxid: int = 0
    received: int = 0
    sent: int = 0
    outstanding: int = 0
    nodes: int = 0
    data_bytes: int = 0
    watches: int = 0
    watched_paths: int = 0
    watching: int = 0  # connections
    uptime_ms: int = 0
    open_files: int = 0
    open_files_max: int = 0
    settings: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, object] = field(default_factory=dict)
    connections: Sequence[ConnectionFacts] = ()
    due: Mapping[int, Sequence[int]] = field(default_factory=dict)  # sessions by ms to go
    ephemerals: Mapping[int, Sequence[str]] = field(default_factory=dict)


def _ruok(_: ServerFacts) -> str:
    return "imok"


def _isro(_: ServerFacts) -> str:
    return "rw"


def _srvr(facts: ServerFacts) -> str:
    return f"Zookeeper version: {VERSION}\n{_totals(facts)}"


def _stat(facts: ServerFacts) -> str:
    clients = "".join(f" {_client(each)})\n" for each in facts.connections)
    return f"Zookeeper version: {VERSION}\nClients:\n{clients}\n{_totals(facts)}"


def _cons(facts: ServerFacts) -> str:
    lines = [
        f" {_client(each)},sid=0x{each.session:x},lop={each.last_operation or 'NA'},est=0,"
        f"to={each.timeout_ms},lcxid=0x0,lzxid=0x{facts.zxid:x},lresp=0,llat=0,minlat=0,avglat=0,"
        "maxlat=0)\n"
        for each in facts.connections
    ]
    return "".join((*lines, "\n"))


def _mntr(facts: ServerFacts) -> str:
    values = {
        "version": VERSION,
        "server_state": "standalone",
        "avg_latency": "0.0",
        "max_latency": 0,
        "min_latency": 0,
        "packets_received": facts.received,
        "packets_sent": facts.sent,
        "num_alive_connections": len(facts.connections),
        "outstanding_requests": facts.outstanding,
        "znode_count": facts.nodes,
        "watch_count": facts.watches,
        "ephemerals_count": sum(map(len, facts.ephemerals.values())),
        "approximate_data_size": facts.data_bytes,
        "global_sessions": sum(map(len, facts.due.values())),
        "uptime": facts.uptime_ms,
        "open_file_descriptor_count": facts.open_files,
        "max_file_descriptor_count": facts.open_files_max,
    }
    return "".join(f"zk_{name}\t{value}\n" for name, value in values.items())


def _dump(facts: ServerFacts) -> str:
    sessions = sum(map(len, facts.due.values()))
    lines = ["SessionTracker dump:", f"Session Sets ({len(facts.due)})/({sessions}):"]
    for ms, ids in sorted(facts.due.items()):
        lines += [f"{len(ids)} expire in {ms} ms:", *(f"\t0x{id:x}" for id in ids)]
    lines += ["ephemeral nodes dump:", f"Sessions with Ephemerals ({len(facts.ephemerals)}):"]
    for id, paths in facts.ephemerals.items():
        lines += [f"0x{id:x}:", *(f"\t{path}" for path in paths)]
    lines += ["Connections dump:", f"Connections Sets (1)/({len(facts.connections)}):"]
    lines += [f"\t{_client(each)})" for each in facts.connections]
    return "\n".join((*lines, ""))


def _envi(facts: ServerFacts) -> str:
    known = {"zookeeper.version": VERSION, **facts.environment}
    return "Environment:\n" + "".join(f"{name}={value}\n" for name, value in known.items())


def _conf(facts: ServerFacts) -> str:
    return "".join(f"{name}={value}\n" for name, value in facts.settings.items())


def _wchs(facts: ServerFacts) -> str:
    return (
        f"{facts.watching} connections watching {facts.watched_paths} paths\n"
        f"Total watches:{facts.watches}\n"
    )


def _client(facts: ConnectionFacts) -> str:
    counts = f"queued={facts.queued},recved={facts.received},sent={facts.sent}"
    return f"/{facts.address}[1]({counts}"


def _totals(facts: ServerFacts) -> str:
    return (
        "Latency min/avg/max: 0/0.0/0\n"
        f"Received: {facts.received}\n"
        f"Sent: {facts.sent}\n"
        f"Connections: {len(facts.connections)}\n"
        f"Outstanding: {facts.outstanding}\n"
        f"Zxid: 0x{facts.zxid:x}\n"
        "Mode: standalone\n"
        f"Node count: {facts.nodes}\n"
    )


WORDS: Final[Mapping[bytes, Callable[[ServerFacts], str]]] = {
    b"ruok": _ruok,
    b"isro": _isro,
    b"srvr": _srvr,
    b"stat": _stat,
    b"cons": _cons,
    b"mntr": _mntr,
    b"dump": _dump,
    b"envi": _envi,
    b"conf": _conf,
    b"wchs": _wchs,
}
