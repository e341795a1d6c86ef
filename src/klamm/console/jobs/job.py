"""One job: the command that does it, how far it is, and what came of it."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from klamm.console.showing import twins

Json = dict[str, Any]
SAID_MAX: Final = 20
_LINE_MAX: Final = 400
_STEPS_MAX: Final = 20
PROGRESS: Final = "klamm_progress"

WAITING, RUNNING, DONE, FAILED, CANCELLED, LOST = (
    "waiting",
    "running",
    "done",
    "failed",
    "cancelled",
    "lost",
)
ENDED: Final = frozenset({DONE, FAILED, CANCELLED, LOST})
_KEPT: Final = (
    "id",
    "kind",
    "title",
    "topic",
    "who",
    "state",
    "report",
    "made_ms",
    "began_ms",
    "ended_ms",
    "code",
    "result",
)


@dataclass(slots=True, kw_only=True)
class Job:
    """One command; its words are an argument list that no shell ever reads."""

    id: str
    kind: str
    title: str
    words: tuple[str, ...]
    who: str
    topic: str | None = None
    offline: bool = False  # it asks no cluster
    report: str | None = None  # of an audit: its page, below the directory of jobs
    state: str = WAITING
    made_ms: int = 0
    began_ms: int | None = None
    ended_ms: int | None = None
    code: int | None = None
    result: Json | None = None
    steps: list[Json] = field(default_factory=list)
    said: deque[str] = field(default_factory=lambda: deque(maxlen=SAID_MAX))

    @property
    def twin(self) -> str:
        """The same for a terminal; where the cluster is and who asks is left to the terminal."""
        return " ".join(["klamm", *map(twins.quoted, self.words)])

    @property
    def is_over(self) -> bool:
        return self.state in ENDED

    def hear(self, line: str, now_ms: int) -> None:
        """Takes a line that the command said: how far it is, or words for people."""
        told = _progress(line)
        if told is None:
            if line.strip():
                self.said.append(line.rstrip()[:_LINE_MAX])
            return
        if not self.steps or self.steps[-1]["what"] != told["what"]:
            self.steps = [*self.steps, {"began_ms": now_ms}][-_STEPS_MAX:]
        self.steps[-1] |= told

    def end(self, code: int, out: str, now_ms: int) -> None:
        """Takes the result; an audit that found something ends with 1 and has a result as well."""
        self.code, self.ended_ms = code, now_ms
        try:
            result = json.loads(out)
        except (ValueError, RecursionError):
            result = None
        self.result = result if isinstance(result, dict) else None
        if self.state in (CANCELLED, LOST):
            return
        is_told = self.result is not None and (code == 0 or self.kind == "audit")
        self.state = DONE if is_told else FAILED

    @property
    def sentence(self) -> str:
        """The outcome in a few words."""
        match self.state:
            case "waiting":
                return "waits for its turn"
            case "running":
                return "has begun" if not self.steps else str(self.steps[-1]["what"])
            case "failed":
                return self.said[-1] if self.said else f"it ended with code {self.code}"
            case "cancelled":
                return "cancelled; what it had not finished does not count as done"
            case "lost":
                return "the console ended while it ran; start it again, it goes on where it stopped"
            case _:
                return _verdict(self.kind, self.result or {})

    def kept(self) -> Json:
        """The values that outlive the console."""
        return {name: getattr(self, name) for name in _KEPT} | {
            "words": list(self.words),
            "said": list(self.said),
            "steps": self.steps,
        }


def revived(told: Mapping[str, Any]) -> Job:
    """A job of an earlier console; one that had not ended is lost."""
    made = Job(
        **{name: told[name] for name in _KEPT},
        words=tuple(map(str, told["words"])),
        steps=list(told["steps"])[-_STEPS_MAX:],
    )
    made.said.extend(map(str, told["said"]))
    if not made.is_over:
        made.state = LOST
    return made


def _progress(line: str) -> Json | None:
    if not line.startswith('{"' + PROGRESS):
        return None
    try:
        told = json.loads(line)[PROGRESS]
        return {
            "what": str(told["what"])[:_LINE_MAX],
            "done": int(told["done"]),
            "total": int(told["total"]),
            "bytes": int(told["bytes"]),
        }
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _verdict(kind: str, result: Mapping[str, Any]) -> str:
    number = result.get("records")
    records = f"{number:,} records" if isinstance(number, int) else "its records"
    match kind:
        case "audit":
            events = result.get("events")
            judged = f"{events:,} decisions judged" if isinstance(events, int) else "judged"
            verdict = "nothing is wrong" if result.get("clean") else "look at what was found"
            return f"{judged}: {verdict}"
        case "archive":
            checked = ", all read back and compared" if result.get("verified") else ""
            return f"archived {records}{checked}"
        case "verify":
            return "every file and every record matches" if not result.get("faults") else "damaged"
        case "restore":
            return f"restored {records}"
        case _:
            return f"done, with {records}" if number is not None else "done"
