"""Speech with one broker, byte for byte; what it answers, or that it closed the connection."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from typing import Any, Final

from interop_extra.differential.dice import TIME_MS
from interop_extra.differential.trees import Tree, from_tree, to_tree
from klamm.model.errors import ErrorCode, ProtocolError
from klamm.model.names import ZERO_ID
from klamm.protocol import batch, codec, frames
from klamm.protocol.apis import APIS, ApiKey

CLIENT_ID: Final = "differ"
CLOSED: Final = "(closed the connection)"
SILENT: Final = "(no answer)"
_TIMEOUT_S: Final = 30.0
_AGAIN_FOR_S: Final = 5.0
_AGAIN: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS}
)
_SIZE: Final = struct.Struct(">i")


class Speaker:
    """One system, with what it has called things: its ids of topics, members and producers."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._socket: socket.socket | None = None
        self._number = 0
        self.memory: dict[str, Any] = {}

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, key: int, version: int, tree: Tree, spoil: str = "") -> Tree:
        """The answer as a tree, or the word for there being none.

        What says "ask again" is asked again for a while, as every client does.
        """
        deadline = time.monotonic() + _AGAIN_FOR_S
        while True:
            said = self._ask(key, version, tree, spoil)
            if not _says_again(said) or time.monotonic() > deadline:
                return said
            time.sleep(0.01)

    def _ask(self, key: int, version: int, tree: Tree, spoil: str) -> Tree:
        message = from_tree(codec.message_class(key, "Request"), self._resolved(tree))
        body = codec.encode_request(key, version, message)
        frame = _spoilt(self._frame(key, version, body), spoil)
        if key == ApiKey.PRODUCE and tree.get("acks") == 0:
            return self._unanswered(frame)
        answer = self._exchange(frame)
        if isinstance(answer, str) or spoil == "version":
            return answer if isinstance(answer, str) else f"hex:{answer[4:].hex()[:8]}"
        _, at = frames.parse_response_header(key, version, answer)
        try:
            response = codec.decode_response(key, version, answer[at:])
        except ProtocolError as fault:
            return f"(unreadable: {fault})"
        said = to_tree(response, key, version)
        self._remember(key, said)
        return self._named(said)

    def _frame(self, key: int, version: int, body: bytes) -> bytes:
        self._number += 1
        return frames.encode_request_frame(key, version, self._number, CLIENT_ID, body)

    def _unanswered(self, frame: bytes) -> str:
        """What becomes of a request that has no answer, seen by one that has."""
        probe = self._frame(ApiKey.API_VERSIONS, 0, b"")
        answer = self._exchange(frame + probe)
        return answer if isinstance(answer, str) else "(went on)"

    def _exchange(self, frame: bytes) -> bytes | str:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=_TIMEOUT_S)
        try:
            self._socket.sendall(frame)
            (size,) = _SIZE.unpack(self._exactly(4))
            return self._exactly(size)
        except TimeoutError:
            self.close()
            return SILENT
        except (ConnectionError, EOFError):
            self.close()
            return CLOSED

    def _exactly(self, size: int) -> bytes:
        assert self._socket is not None
        pieces = bytearray()
        while len(pieces) < size:
            piece = self._socket.recv(size - len(pieces))
            if not piece:
                raise EOFError
            pieces += piece
        return bytes(pieces)

    def _resolved(self, tree: Tree) -> Tree:
        """A request with this system's own names in the place of `$words`."""
        if isinstance(tree, dict):
            return {name: self._resolved(value) for name, value in tree.items()}
        if isinstance(tree, list):
            return [self._resolved(each) for each in tree]
        if isinstance(tree, str) and tree.startswith("$batch:"):
            return self._batch(int(tree.partition(":")[2]))
        if isinstance(tree, str) and tree.startswith("$"):
            return self.memory.get(tree, _UNKNOWN[tree.partition(":")[0]])
        return tree

    def _named(self, tree: Tree) -> Tree:
        """An answer in which topics that are known by their ids have names."""
        names = {value: word for word, value in self.memory.items() if word.startswith("$topic:")}
        return _renamed(tree, names)

    def _batch(self, sequence: int) -> str:
        """One record of the producer that this system named last; below 0, of none."""
        if sequence < 0:
            return f"hex:{batch.encode_batch([batch.Record(0, TIME_MS, b'k', b'v')]).hex()}"
        made = batch.encode_batch(
            [batch.Record(0, TIME_MS, b"k", b"v")],
            producer_id=self.memory.get("$producer", 4_000_000),
            producer_epoch=self.memory.get("$epoch", 0),
            base_sequence=sequence,
        )
        return f"hex:{made.hex()}"

    def _remember(self, key: int, said: Mapping[str, Tree]) -> None:
        for field, word in _REMEMBERED.get(key, {}).items():
            if said.get(field) not in (None, "", -1):
                before = self.memory.get(word)
                if before is not None and before != said[field]:
                    self.memory[_BEFORE.get(word, word)] = before
                self.memory[word] = said[field]
        if key in (ApiKey.METADATA, ApiKey.CREATE_TOPICS):
            for topic in said.get("topics", ()):
                if topic.get("topic_id") not in (None, str(ZERO_ID)) and topic.get("name"):
                    self.memory[f"$topic:{topic['name']}"] = topic["topic_id"]


_REMEMBERED: Final[Mapping[int, Mapping[str, str]]] = {
    ApiKey.JOIN_GROUP: {"member_id": "$member", "generation_id": "$generation"},
    ApiKey.INIT_PRODUCER_ID: {"producer_id": "$producer", "producer_epoch": "$epoch"},
}
# What was told before the last time.
_BEFORE: Final[Mapping[str, str]] = {"$member": "$before", "$epoch": "$epoch-before"}
_UNKNOWN: Final[Mapping[str, Any]] = {
    "$member": "nobody",
    "$before": "nobody",
    "$epoch-before": 0,
    "$generation": 1,
    "$producer": 4_000_000,
    "$epoch": 0,
    "$topic": "11111111-2222-3333-4444-555555555555",
}


def _renamed(tree: Tree, names: Mapping[Any, str]) -> Tree:
    if isinstance(tree, dict):
        return {name: _renamed(value, names) for name, value in tree.items()}
    if isinstance(tree, list):
        return [_renamed(each, names) for each in tree]
    return names.get(tree, tree) if isinstance(tree, str) else tree


def _says_again(tree: Tree) -> bool:
    """Whether an answer has an error that passes by itself."""
    if isinstance(tree, dict):
        codes = (tree.get("error_code"), tree.get("partition_error_code"))
        return any(code in _AGAIN for code in codes) or any(map(_says_again, tree.values()))
    return isinstance(tree, list) and any(map(_says_again, tree))


def _spoilt(frame: bytes, how: str) -> bytes:
    """A frame with a fault that no client of today would make."""
    match how:
        case "":
            return frame
        case "cut":
            return _SIZE.pack(len(frame) - 4 - 3) + frame[4:-3]
        case "more":
            return _SIZE.pack(len(frame) - 4 + 3) + frame[4:] + b"\1\2\3"
        case "version":
            return frame[:6] + struct.pack(">h", 99) + frame[8:]
        case _:
            raise ValueError(how)


def common_versions(kafka: Speaker, klamm: Speaker) -> dict[int, tuple[int, int]]:
    """The versions of each API that both admit to, and that this codec can speak."""
    told = [
        {each["api_key"]: each for each in speaker.ask(ApiKey.API_VERSIONS, 0, {})["api_keys"]}
        for speaker in (kafka, klamm)
    ]
    found = {}
    for key in told[0].keys() & told[1].keys() & APIS.keys():
        served = APIS[key].served
        low = max(served.low, *(each[key]["min_version"] for each in told))
        high = min(served.high, *(each[key]["max_version"] for each in told))
        if low <= high:
            found[key] = (low, high)
    return dict(sorted(found.items()))
