"""A store as one file: a line of JSON a node, and a checksum over all of them.

The first line says what the file is, the last how many nodes it has and the SHA-256 of every byte
before. A node's line has its path, data, versions, times and grants; what is for brokers alone is
marked `secret`. Ephemeral nodes are left out, for their sessions are not carried along, and so are
the nodes that a ZooKeeper or klamm's client of it keeps for itself.

A file is believed only as a whole: `read` checks every line before anything is done with it.
Pure but for the file it is given.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NamedTuple

from klamm.model.errors import UsageError
from klamm.store.access import GRANTS_MAX, OPEN, Acl, Grant
from klamm.store.browsing import Facts, Seen
from klamm.store.layout.kinds import is_secret
from klamm.store.layout.paths import IMPORT_MARK
from klamm.store.node_paths import SERVER_NODES, is_valid
from klamm.store.tree import ROOT, split

FORMAT: Final = 1
_WHAT: Final = "klamm store"
_TICKETS: Final = "/klamm.tickets"
_LINE_MAX: Final = 8 << 20
_NODES_MAX: Final = 10_000_000
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1


class Kept(NamedTuple):
    """One node of a file."""

    path: str
    data: bytes | None
    version: int
    czxid: int
    mzxid: int
    pzxid: int
    ctime_ms: int
    mtime_ms: int
    aversion: int
    children_made: int
    acl: Acl


@dataclass(frozen=True, slots=True)
class Export:
    """A file that was found whole."""

    nodes: list[Kept]  # each behind its parent
    sha256: str
    source: str
    taken_ms: int


def is_carried(seen: Seen) -> bool:
    """Whether a node goes into a file."""
    own = (SERVER_NODES[0], _TICKETS, IMPORT_MARK)
    return not seen.is_ephemeral and not any(
        seen.path == root or seen.path.startswith(f"{root}/") for root in own
    )


def kept(seen: Seen) -> Kept:
    """A node as it goes into a file; UsageError where not all of it was shown."""
    facts = seen.facts
    hides = any(grant.scheme == "digest" and grant.id.endswith(":x") for grant in seen.acl)
    if facts is None or not seen.acl or hides:
        raise UsageError(
            f"{seen.path} may not be read in full, so the export would not be whole: log in as the "
            "brokers do (--data of the cluster, or -X klamm.zookeeper.digest.file=FILE)"
        )
    return Kept(
        path=seen.path,
        data=seen.data,
        version=facts.version,
        czxid=facts.czxid,
        mzxid=facts.mzxid,
        pzxid=facts.pzxid,
        ctime_ms=facts.ctime_ms,
        mtime_ms=facts.mtime_ms,
        aversion=facts.aversion,
        children_made=_children_made(facts),
        acl=seen.acl,
    )


def _children_made(facts: Facts) -> int:
    """The number of children ever made: each changed cversion once, and each that went again."""
    return max(0, (facts.cversion + facts.children_count) // 2)


def write(file: BinaryIO, nodes: Iterable[Kept], *, source: str, taken_ms: int) -> str:
    """Write all lines; the checksum."""
    hashed = hashlib.sha256()
    count = 0
    head = {"export": _WHAT, "format": FORMAT, "source": source, "taken_ms": taken_ms}
    for value in (head, *map(_encoded, nodes)):
        line = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        hashed.update(line)
        file.write(line)
        count += 1
    end = {"end": True, "nodes": count - 1, "sha256": hashed.hexdigest()}
    file.write(json.dumps(end).encode() + b"\n")
    return hashed.hexdigest()


def _encoded(node: Kept) -> dict[str, Any]:
    value: dict[str, Any] = {"path": node.path}
    if is_secret(node.path):
        value["secret"] = True
    if node.data is not None:
        try:
            value["text"] = node.data.decode()
        except UnicodeDecodeError:
            value["base64"] = base64.b64encode(node.data).decode()
    value |= {name: getattr(node, name) for name in _NUMBERS}
    if node.acl != OPEN:
        value["acl"] = [list(grant) for grant in node.acl]
    return value


_NUMBERS: Final = {
    "version": _INT_MAX,
    "czxid": _LONG_MAX,
    "mzxid": _LONG_MAX,
    "pzxid": _LONG_MAX,
    "ctime_ms": _LONG_MAX,
    "mtime_ms": _LONG_MAX,
    "aversion": _INT_MAX,
    "children_made": _LONG_MAX,
}


def read(file: BinaryIO, name: str) -> Export:
    """Check a file and read it; UsageError says which line is wrong, and how."""
    hashed = hashlib.sha256()
    head: dict[str, Any] = {}
    nodes: list[Kept] = []
    known: set[str] = set()
    for number, line in _lines(file, name):
        value = _object(line, f"{name}, line {number}")
        if "end" in value:
            _check_end(value, len(nodes), hashed.hexdigest(), name)
            if file.read(1):
                raise UsageError(f"{name} goes on behind its end: it is no export of a store")
            return Export(nodes, hashed.hexdigest(), str(head["source"]), int(head["taken_ms"]))
        hashed.update(line)
        if number == 1:
            head = _checked_head(value, name)
        else:
            nodes.append(_decoded(value, known, f"{name}, line {number}"))
    raise UsageError(f"{name} has no end: the export was cut short, take it again")


def _lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    for number in range(1, _NODES_MAX):
        line = file.readline(_LINE_MAX + 1)
        if not line:
            return
        if len(line) > _LINE_MAX:
            raise UsageError(f"{name}, line {number} is longer than {_LINE_MAX} bytes")
        yield number, line
    raise UsageError(f"{name} has more than {_NODES_MAX} lines")


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise UsageError(f"{where} is no JSON: this is no export of a store") from fault
    if not isinstance(value, dict):
        raise UsageError(f"{where} is no object: this is no export of a store")
    return value


def _checked_head(value: dict[str, Any], name: str) -> dict[str, Any]:
    if value.get("export") != _WHAT:
        raise UsageError(f"{name} is no export of a store (`klamm store export`)")
    if value.get("format") != FORMAT:
        raise UsageError(
            f"{name} has the format {value.get('format')!r}: this klamm reads {FORMAT}"
        )
    if not isinstance(value.get("source"), str) or not _is_number(value.get("taken_ms"), _LONG_MAX):
        raise UsageError(f"{name}, line 1 does not say what was exported, and when")
    return value


def _check_end(value: dict[str, Any], count: int, sha256: str, name: str) -> None:
    if value.get("sha256") != sha256 or value.get("nodes") != count:
        raise UsageError(
            f"{name} is damaged: its checksum is not that of its lines. Take the export again"
        )


def _decoded(value: dict[str, Any], known: set[str], where: str) -> Kept:
    path = value.get("path")
    if not isinstance(path, str) or not is_valid(path) or path in known:
        raise UsageError(f"{where} has no path that a new node can have")
    if path != ROOT and split(path)[0] not in known:
        raise UsageError(f"{where}: {path} comes before its parent")
    known.add(path)
    numbers = {}
    for name, limit in _NUMBERS.items():
        if not _is_number(value.get(name), limit):
            raise UsageError(f"{where}: {name} of {path} is no number from 0 to {limit}")
        numbers[name] = value[name]
    return Kept(path=path, data=_data(value, where), acl=_acl(value, where), **numbers)


def _is_number(value: Any, limit: int) -> bool:
    return type(value) is int and 0 <= value <= limit


def _data(value: dict[str, Any], where: str) -> bytes | None:
    try:
        if "base64" in value:
            return base64.b64decode(value["base64"], validate=True)
        return value["text"].encode() if "text" in value else None
    except (binascii.Error, AttributeError, TypeError, ValueError) as fault:
        raise UsageError(f"{where} holds data that is neither text nor base64") from fault


def _acl(value: dict[str, Any], where: str) -> Acl:
    if "acl" not in value:
        return OPEN
    try:
        acl = tuple(Grant(int(perms), str(scheme), str(id)) for perms, scheme, id in value["acl"])
        for grant in acl:
            f"{grant.scheme}{grant.id}".encode()  # half a character cannot be written
    except (TypeError, ValueError) as fault:
        raise UsageError(f"{where} has no list of grants") from fault
    if not 0 < len(acl) <= GRANTS_MAX or not all(0 <= grant.perms < 32 for grant in acl):
        raise UsageError(f"{where} has grants that no node can have")
    return acl
