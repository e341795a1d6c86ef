"""The ledger: every transition the controller decided, one JSON line each, kept on disk.

The controller's broker writes it to files `ledger-<number>.jsonl` in its log directory; to files
and not to a directory, because Kafka takes every directory there for a partition and would refuse
to start on it. A reader asks all brokers and merges by (controller epoch, sequence). Files are
rolled by size and the oldest go, so the ledger never fills a disk; what is kept is enough for the
story of a topic. `ledger_topic` brings what is written here to everybody else.
"""

from __future__ import annotations

import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from klamm.controller.effects import Transition
from klamm.controller.states import EDITION
from klamm.log.disk.files import FILE_MODE, make_directory, tighten_below
from klamm.model.names import KLAMM_LEDGER, BrokerId, id_text

FILE_BYTES_MAX: Final = 32 * 1024 * 1024
FILES_MAX: Final = 8
RECENT_MAX: Final = 2_000  # lines kept in memory for those who follow along
_READ_BYTES: Final = 1 << 20
_PREFIX: Final = "ledger-"
_text: Final = json.encoder.encode_basestring  # a string as JSON has it


# Whoever asked for a change of a topic; '' where nobody did.
Requester = Callable[[str], str]


def _unasked(_: str) -> str:
    return ""


class LinePlace(NamedTuple):
    """The place where one line ends and the next begins."""

    file: int = 0
    position: int = 0


class LedgerLine(NamedTuple):
    """The parts of an entry that decide where it goes, and the bytes it is written as."""

    time_ms: int
    epoch: int
    sequence: int
    topic: str
    subject: str
    after: str
    text: bytes

    @property
    def entry(self) -> dict[str, Any]:
        """All of it."""
        parsed: dict[str, Any] = json.loads(self.text)
        return parsed


class Ledger:
    """One broker's part of the ledger."""

    def __init__(
        self, directory: Path, broker: BrokerId, *, file_bytes_max: int = FILE_BYTES_MAX
    ) -> None:
        self.on_news: Callable[[], None] = _nobody
        self._directory = directory
        self._broker = broker
        self._file_bytes_max = file_bytes_max
        self._epoch = -1
        self._sequence = 0
        self._descriptor: int | None = None
        self._size_bytes = 0
        self._is_dirty = False
        self._recent: deque[str] = deque(maxlen=RECENT_MAX)  # of this term
        self._followers: dict[Callable[[], None], None] = {}

    @property
    def place(self) -> tuple[int, int]:
        """The term and the number of its last line."""
        return self._epoch, self._sequence

    def since(self, sequence: int, limit: int) -> list[str] | None:
        """Lines of this term behind a number; None where not all of them are in memory."""
        missing = self._sequence - sequence
        if not 0 <= missing <= len(self._recent):
            return None
        first = len(self._recent) - missing
        return list(islice(self._recent, first, first + limit))

    def follow(self, call: Callable[[], None]) -> Callable[[], None]:
        """Has this called after each decision, until what is returned here is called."""
        self._followers[call] = None

        def unfollow() -> None:
            self._followers.pop(call, None)

        return unfollow

    def append(
        self,
        epoch: int,
        cause: str,
        transitions: Iterable[Transition],
        *,
        time_ms: int,
        by: Requester = _unasked,
    ) -> None:
        """Write what one decision moved, and who asked for it where somebody did."""
        is_opening = epoch != self._epoch
        if is_opening:
            self._epoch, self._sequence = epoch, 0
            self._recent.clear()
        # By hand: a topic of a thousand partitions is born in eight thousand transitions.
        head = f'{{"time_ms":{time_ms},"controller_epoch":{epoch},"sequence":'
        cause_text = _text(cause)
        lines = []
        is_news = False
        for entry in transitions:
            self._sequence += 1
            edition = ""
            if is_opening and entry.subject.startswith("controller "):
                # The first line of a term says how the rest is to be judged.
                edition, is_opening = f',"edition":{EDITION}', False
            # What happens to the topic that tells of it all would otherwise be told for ever.
            is_news |= entry.topic != KLAMM_LEDGER
            requester = by(entry.topic)
            asked = f',"by":{_text(requester)}' if requester else ""
            topic_id = "null" if entry.topic_id is None else _text(id_text(entry.topic_id))
            lines.append(
                f'{head}{self._sequence},"controller_id":{self._broker},"cause":{cause_text},'
                f'"topic":{_text(entry.topic)},"topic_id":{topic_id},'
                f'"subject":{_text(entry.subject)},"before":{_text(entry.before)},'
                f'"after":{_text(entry.after)},"why":{_text(entry.why)}{asked}{edition}}}'
            )
        if lines:
            self._write(("\n".join(lines) + "\n").encode())
            self._recent.extend(lines)
            for call in list(self._followers):
                call()
        if is_news:
            self.on_news()

    def sync(self) -> None:
        """Have the disk keep what was written; may run in another thread than the rest."""
        if self._descriptor is None or not self._is_dirty:
            return
        self._is_dirty = False
        # A copy, because the file may be rolled meanwhile.
        descriptor = os.dup(self._descriptor)
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def read(self, topic: str | None = None) -> Iterator[dict[str, object]]:
        """The entries of one topic (or of everything), oldest first."""
        for line in self.read_lines(topic):
            entry = _entry(line)
            if entry is not None:
                yield entry

    def read_lines(self, topic: str | None = None) -> Iterator[bytes]:
        """The same as they were written, those that a crash cut short included."""
        wanted = None if topic is None else f'"topic":{_text(topic)},'.encode()
        for path in self._files():
            position = 0
            # Only whole lines, for the last one may be in the making.
            while data := _whole_lines(path, position, _READ_BYTES):
                position += len(data)
                for line in data.split(b"\n"):
                    if line and (wanted is None or wanted in line):
                        yield line

    def read_from(self, place: LinePlace, bytes_max: int) -> tuple[list[LedgerLine], LinePlace]:
        """Some of the entries behind a place, and the place behind them; none at the end.

        It may run in another thread while entries are written: it stops at the last whole line.
        """
        lines: list[LedgerLine] = []
        for path in self._files():
            number = _number(path)
            if number < place.file:
                continue
            if number > place.file:
                place = LinePlace(number, 0)
            while data := _whole_lines(path, place.position, bytes_max):
                place = LinePlace(number, place.position + len(data))
                lines = list(_lines(data))
                if lines:
                    return lines, place
        return lines, place

    def close(self) -> None:
        """Let go of the file; the next entry opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self, data: bytes) -> None:
        if self._descriptor is None:
            self._open(self._latest_or_new())
        elif self._size_bytes + len(data) > self._file_bytes_max:
            self._roll()
        assert self._descriptor is not None, "a file was opened"
        os.write(self._descriptor, data)
        self._size_bytes += len(data)
        self._is_dirty = True

    def _open(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, FILE_MODE)
        self._size_bytes = path.stat().st_size
        if self._size_bytes:
            os.write(self._descriptor, b"\n")  # behind whatever a crash left of the last line

    def _roll(self) -> None:
        self.close()
        files = self._files()
        for old in files[: max(0, len(files) + 1 - FILES_MAX)]:
            old.unlink()
        self._open(self._numbered(_number(files[-1]) + 1))

    def _latest_or_new(self) -> Path:
        make_directory(str(self._directory.absolute()))
        tighten_below(str(self._directory))
        files = self._files()
        if files and files[-1].stat().st_size < self._file_bytes_max:
            return files[-1]
        return self._numbered(_number(files[-1]) + 1 if files else 0)

    def _numbered(self, number: int) -> Path:
        return self._directory / f"{_PREFIX}{number:010d}.jsonl"

    def _files(self) -> list[Path]:
        return sorted(self._directory.glob(f"{_PREFIX}*.jsonl"))


def _number(path: Path) -> int:
    return int(path.stem.removeprefix(_PREFIX))


def _whole_lines(path: Path, position: int, bytes_max: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(position)
            data = file.read(bytes_max)
    except FileNotFoundError:
        return b""  # the oldest files go while one reads
    return data[: data.rfind(b"\n") + 1]


# An entry as `append` writes it. A decision may have moved forty thousand things, and to look for
# six fields takes a fraction of the time of parsing ten.
_STRING: Final = rb'[^"\\]*(?:\\.[^"\\]*)*'
_WRITTEN: Final = re.compile(
    rb'\{"time_ms":(\d+),"controller_epoch":(-?\d+),"sequence":(\d+),"controller_id":-?\d+,'
    rb'"cause":"%(text)b","topic":"([^"\\]*)","topic_id":(?:null|"[^"\\]*"),'
    rb'"subject":"([^"\\]*)","before":"%(text)b","after":"([^"\\]*)",'
    rb'"why":"%(text)b"(?:,"by":"%(text)b")?(?:,"edition":\d+)?\}' % {b"text": _STRING}
)


def _lines(data: bytes) -> Iterator[LedgerLine]:
    """The entries of whole lines, without those that a crash cut short."""
    for text in data.split(b"\n"):
        if found := _WRITTEN.fullmatch(text):
            time_ms, epoch, sequence, topic, subject, after = found.groups()
            yield LedgerLine(
                int(time_ms),
                int(epoch),
                int(sequence),
                topic.decode(),
                subject.decode(),
                after.decode(),
                text,
            )
        elif entry := _entry(text):
            yield LedgerLine(
                entry["time_ms"],
                entry["controller_epoch"],
                entry["sequence"],
                entry["topic"],
                entry["subject"],
                entry["after"],
                text,
            )


def is_entry(line: bytes) -> bool:
    """Whether a line says something; one that a crash cut short does not."""
    return _entry(line) is not None


def _entry(line: bytes) -> dict[str, Any] | None:
    """The entry of a line; None for one that a crash cut short."""
    try:
        return json.loads(line) if line.endswith(b"}") else None
    except ValueError:
        return None


def _nobody() -> None:
    pass
