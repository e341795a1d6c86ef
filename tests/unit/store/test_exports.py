"""A store as a file: whole or refused."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.model.errors import UsageError
from klamm.store import exports
from klamm.store.access import OPEN, Grant
from klamm.store.browsing import Facts, Seen
from klamm.store.exports import Kept
from klamm.store.node_paths import is_valid

ROOT = Kept("/", b"", 0, 0, 0, 3, 0, 0, 0, 2, OPEN)
MINE = (Grant(31, "digest", "me:hash"), Grant(1, "world", "anyone"))


def node(path: str, data: bytes | None = b"x", version: int = 3, acl: Any = OPEN) -> Kept:
    return Kept(path, data, version, 10, 11, 12, 1_700_000_000_000, 1_700_000_000_001, 1, 4, acl)


def written(*nodes: Kept) -> bytes:
    file = io.BytesIO()
    exports.write(file, nodes, source="here", taken_ms=7)
    return file.getvalue()


def read(content: bytes) -> exports.Export:
    return exports.read(io.BytesIO(content), "x.jsonl")


names = st.text(st.characters(max_codepoint=0x3FF), min_size=1, max_size=8).filter(
    lambda name: is_valid(f"/{name}") and "/" not in name
)


@given(
    st.dictionaries(names, st.tuples(st.none() | st.binary(max_size=50), st.integers(0, 2**31 - 1)))
)
def test_what_is_written_is_read(found: dict[str, tuple[bytes | None, int]]) -> None:
    nodes = [ROOT, *(node(f"/{name}", data, v, MINE) for name, (data, v) in found.items())]
    got = read(written(*nodes))
    assert got.nodes == nodes
    assert (got.source, got.taken_ms) == ("here", 7)


def test_what_is_for_brokers_alone_is_marked() -> None:
    content = written(ROOT, node("/config"), node("/config/users"))
    lines = [json.loads(line) for line in content.splitlines()]
    assert [line.get("secret", False) for line in lines] == [False, False, False, True, False]


def test_every_changed_or_missing_byte_is_noticed() -> None:
    content = written(ROOT, node("/a", b"some data", acl=MINE))
    for at in range(len(content) - 1):
        changed = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        with pytest.raises(UsageError):
            read(changed)
        with pytest.raises(UsageError):
            read(content[:at])
    with pytest.raises(UsageError, match="goes on behind its end"):
        read(content + b"{}\n")


def _sealed(change: Callable[[list[dict[str, Any]]], object]) -> bytes:
    """A file whose lines were changed by somebody who can make a checksum."""
    lines = [json.loads(line) for line in written(ROOT, node("/a"), node("/a/b")).splitlines()]
    change(lines)
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines[:-1])
    end = {"end": True, "nodes": len(lines) - 2, "sha256": hashlib.sha256(body).hexdigest()}
    return body + json.dumps(end).encode() + b"\n"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[0].update(export="other"), "no export of a store"),
        (lambda lines: lines[0].update(format=2), "this klamm reads 1"),
        (lambda lines: lines[0].update(taken_ms="now"), "what was exported, and when"),
        (lambda lines: lines[2].update(path="a"), "no path"),
        (lambda lines: lines[2].update(path="/a/../b"), "no path"),
        (lambda lines: lines[2].update(path="/x\x00"), "no path"),
        (lambda lines: lines[3].update(path="/a"), "no path"),
        (lambda lines: lines.__delitem__(2), "comes before its parent"),
        (lambda lines: lines[2].update(version=-1), "version of /a is no number"),
        (lambda lines: lines[2].update(version=2**31), "version of /a is no number"),
        (lambda lines: lines[2].update(version=True), "version of /a is no number"),
        (lambda lines: lines[2].update(czxid=2**63), "czxid of /a is no number"),
        (lambda lines: lines[2].pop("mzxid"), "mzxid of /a is no number"),
        (lambda lines: lines[2].update(base64="?"), "neither text nor base64"),
        (lambda lines: lines[2].update(text=7), "neither text nor base64"),
        (lambda lines: lines[2].update(text="\ud800"), "neither text nor base64"),
        (lambda lines: lines[2].update(acl=7), "no list of grants"),
        (lambda lines: lines[2].update(acl=[[31, "world"]]), "no list of grants"),
        (lambda lines: lines[2].update(acl=[[31, "digest", "\ud800"]]), "no list of grants"),
        (lambda lines: lines[2].update(acl=[]), "grants that no node can have"),
        (lambda lines: lines[2].update(acl=[[99, "world", "anyone"]]), "grants that no node"),
        (lambda lines: lines[2].update(acl=[[1, "ip", "::1"]] * 200), "grants that no node"),
    ],
)
def test_a_sound_checksum_makes_no_sense_of_nonsense(
    change: Callable[[list[dict[str, Any]]], object], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        read(_sealed(change))


def test_a_line_has_an_end() -> None:
    with pytest.raises(UsageError, match="is longer than"):
        read(b"{" * (9 << 20))


FACTS = Facts(1, 2, 3, 4, 5, 7, 6, 0, 1, 3, 8)


@pytest.mark.parametrize(
    ("seen", "is_in"),
    [
        (Seen("/a", b"x", FACTS), True),
        (Seen("/controller", b"x", FACTS._replace(ephemeral_owner=9)), False),
        (Seen("/zookeeper/quota", b"x", FACTS), False),
        (Seen("/klamm.tickets", b"x", FACTS), False),
        (Seen("/klamm.import", b"x", FACTS), False),
        (Seen("/klamm", b"x", FACTS), True),
        (Seen("/zookeepers", b"x", FACTS), True),
    ],
)
def test_what_goes_with_a_session_or_is_the_servers_own_stays(seen: Seen, is_in: bool) -> None:
    assert exports.is_carried(seen) == is_in


def test_children_ever_made_come_of_the_version_of_the_list() -> None:
    # Five made, two of them gone again: seven changes, three there.
    assert exports.kept(Seen("/a", b"x", FACTS)).children_made == 5


@pytest.mark.parametrize(
    "seen",
    [
        Seen("/a", None, None),
        Seen("/a", b"x", FACTS, ()),
        Seen("/a", b"x", FACTS, (Grant(31, "digest", "me:x"),)),
    ],
)
def test_what_was_not_shown_in_full_is_not_exported(seen: Seen) -> None:
    with pytest.raises(UsageError, match="may not be read in full"):
        exports.kept(seen)
