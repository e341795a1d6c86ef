"""Lines that say the same again and again."""

from __future__ import annotations

import logging

from klamm.repeats import Repeats, limited


class Heard(logging.Handler):
    """Keeps what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def speaking(clock: Clock, first: int = 2) -> tuple[logging.Logger, list[str]]:
    log, heard = logging.getLogger(f"strangers-{id(clock)}"), Heard()
    log.propagate = False
    log.setLevel(logging.DEBUG)
    log.addHandler(heard)
    log.addFilter(Repeats(first=first, window_s=60, clock=clock))
    return log, heard.lines


def test_the_first_lines_of_a_kind_are_written_and_the_rest_is_counted() -> None:
    clock = Clock()
    log, lines = speaking(clock)
    for number in range(1000):
        log.warning("closing a connection", extra={"why": number})
    assert lines == [
        "closing a connection",
        "closing a connection (more like this are only counted for 60 s)",
    ]
    clock.now = 61
    log.warning("closing a connection")
    assert lines[2:] == ["closing a connection (998 more like this in the last 60 s)"]


def test_kinds_do_not_silence_each_other() -> None:
    log, lines = speaking(Clock(), first=1)
    for _ in range(3):
        log.warning("one")
        log.error("one")
        log.warning("two")
    assert len(lines) == 3


def test_what_was_asked_for_and_what_is_critical_is_always_written() -> None:
    log, lines = speaking(Clock(), first=1)
    for _ in range(5):
        log.info("a detail")
        log.critical("the end")
    assert len(lines) == 10


def test_kinds_without_end_cost_no_memory() -> None:
    limit = Repeats(first=1)
    for number in range(5000):
        limit.filter(logging.makeLogRecord({"msg": f"kind {number}", "levelno": logging.ERROR}))
    assert len(limit._kinds) <= 1000


def test_a_logger_is_limited_once() -> None:
    log = logging.getLogger("twice")
    assert limited(limited(log)) is log
    assert len(log.filters) == 1
