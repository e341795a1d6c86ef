"""The ledger: every transition the controller decided, one JSON line each, kept on disk.

The controller's broker writes it under `<log.dir>/ledger/`. A reader asks all brokers and merges by
(controller epoch, sequence). Files are rolled by size and the oldest go, so the ledger never fills
a disk; what is kept is enough for the story of a topic.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from klamm.controller.effects import Move

FILE_BYTES_MAX: Final = 32 * 1024 * 1024
FILES_MAX: Final = 8
_PREFIX: Final = "ledger-"


class Ledger:
    """One broker's part of the ledger."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._epoch = -1
        self._sequence = 0
        self._descriptor: int | None = None
        self._size_bytes = 0

    def append(self, epoch: int, cause: str, moves: Iterable[Move], *, time_ms: int) -> None:
        """Write what one decision moved."""
        if epoch != self._epoch:
            self._epoch, self._sequence = epoch, 0
        lines = []
        for move in moves:
            self._sequence += 1
            lines.append(
                _line(
                    time_ms=time_ms,
                    controller_epoch=epoch,
                    sequence=self._sequence,
                    cause=cause,
                    topic=move.topic,
                    subject=move.subject,
                    before=str(move.before),
                    after=str(move.after),
                    why=move.why,
                )
            )
        if lines:
            self._write("".join(lines).encode())

    def sync(self) -> None:
        """Have the disk keep what was written."""
        if self._descriptor is not None:
            os.fdatasync(self._descriptor)

    def read(self, topic: str | None = None) -> Iterator[dict[str, object]]:
        """The entries of one topic (or of everything), oldest first."""
        for path in self._files():
            with path.open("rb") as file:
                for line in file:
                    # A crash may have cut the last line.
                    if not line.endswith(b"\n"):
                        continue
                    entry = json.loads(line)
                    if topic is None or entry["topic"] == topic:
                        yield entry

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self, data: bytes) -> None:
        if self._descriptor is None or self._size_bytes + len(data) > FILE_BYTES_MAX:
            self._roll()
        assert self._descriptor is not None, "a file was opened"
        os.write(self._descriptor, data)
        self._size_bytes += len(data)

    def _roll(self) -> None:
        self.close()
        self._directory.mkdir(parents=True, exist_ok=True)
        files = self._files()
        for old in files[: max(0, len(files) + 1 - FILES_MAX)]:
            old.unlink()
        number = int(files[-1].stem.removeprefix(_PREFIX)) + 1 if files else 0
        path = self._directory / f"{_PREFIX}{number:010d}.jsonl"
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._size_bytes = 0

    def _files(self) -> list[Path]:
        return sorted(self._directory.glob(f"{_PREFIX}*.jsonl"))


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _line(**fields: object) -> str:
    return _encode(fields) + "\n"
