"""Judging of differences: those on purpose are listed with their reasons, all others are faults."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from interop_extra.differential.dice import Asked
from interop_extra.differential.trees import Difference, Tree
from klamm.protocol.apis import APIS

TABLE: Final = Path(__file__).with_name("differences.toml")
_FIELDS: Final = {"api", "path", "kafka", "klamm", "why", "spoil"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Documented:
    """A difference on purpose; what it does not name may be anything."""

    why: str
    api: str = "*"
    path: str = "*"
    kafka: str = "*"
    klamm: str = "*"
    spoil: str = ""

    def covers(self, asked: Asked, found: Difference) -> bool:
        return (
            fnmatchcase(APIS[asked.key].title, self.api)
            and fnmatchcase(found.path, self.path.replace("[", "[[]"))
            and fnmatchcase(_text(found.kafka), self.kafka)
            and fnmatchcase(_text(found.klamm), self.klamm)
            and (not self.spoil or asked.spoil == self.spoil)
        )


def documented(text: str) -> tuple[Documented, ...]:
    """The table of differences on purpose; an entry without a reason is refused."""
    entries: list[Mapping[str, Any]] = tomllib.loads(text).get("difference", [])
    for entry in entries:
        assert str(entry.get("why", "")).strip(), f"a difference needs a why: {entry}"
        assert set(entry) <= _FIELDS, f"unknown words: {entry}"
    return tuple(Documented(**entry) for entry in entries)


@dataclass(slots=True)
class Judge:
    """Collects what differs, by API and place."""

    known: Sequence[Documented]
    used: Counter[Documented] = field(default_factory=Counter)
    faults: dict[tuple[str, str, str, str], list[Asked]] = field(default_factory=dict)

    def look(self, asked: Asked, found: Iterable[Difference]) -> list[Difference]:
        """The differences of one answer that no reason is known for."""
        left = []
        for each in found:
            reason = next((d for d in self.known if d.covers(asked, each)), None)
            if reason is not None:
                self.used[reason] += 1
                continue
            left.append(each)
            title = APIS[asked.key].title
            key = (title, _general(each.path), _text(each.kafka), _text(each.klamm))
            self.faults.setdefault(key, []).append(asked)
        return left

    def report(self) -> str:
        """Every fault once, with its first request as JSON."""
        lines = []
        for (title, path, kafka, klamm), asked in sorted(
            self.faults.items(), key=lambda item: (item[0][0], -len(item[1]))
        ):
            lines.append(f"{title} {path}: Kafka {kafka[:200]}, klamm {klamm[:200]}; {len(asked)}x")
            lines.append(f"    {json.dumps(asked[0].as_json())}")
        return "\n".join(lines)


def _general(path: str) -> str:
    """A path without the names of single elements."""
    pieces = path.split("[")
    return "[*".join([pieces[0], *("]" + piece.partition("]")[2] for piece in pieces[1:])])


def _text(tree: Tree) -> str:
    return tree if isinstance(tree, str) else json.dumps(tree, sort_keys=True)
