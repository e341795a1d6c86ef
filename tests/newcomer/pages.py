"""The pages a newcomer follows, cut into blocks, and what `pages.toml` says of them.

Every block of a page is typed by `follow.py` unless `pages.toml` gives a reason why not, so that a
new block is tried without anybody thinking of it.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SHELL: Final = frozenset({"", "sh", "bash"})
_FENCE: Final = re.compile(
    r'^(?P<indent> *)```(?P<language>\w*)(?: title="(?P<title>[^"]*)")?\n(?P<text>.*?)^ *```$',
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `number` counts those of its page from 1."""

    number: int
    language: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a page takes for granted, and which of its blocks are only to be read."""

    needs: tuple[str, ...] = ()  # extras of klamm, for what the page is about
    services: tuple[str, ...] = ()  # run all the time: what others are asked to have
    given: tuple[str, ...] = ()  # typed before the first block
    before: dict[int, tuple[str, ...]] = field(default_factory=dict)  # typed before a block
    left_out: dict[int, str] = field(default_factory=dict)  # block -> why it is not typed
    lines_left_out: dict[str, str] = field(default_factory=dict)  # the same for single lines
    codes: dict[int, int] = field(default_factory=dict)  # block -> exit code its last command has


def blocks(page: str) -> list[Block]:
    """All fenced blocks of a page, in their order."""
    found = []
    for number, match in enumerate(_FENCE.finditer((ROOT / page).read_text()), 1):
        indent = len(match["indent"])
        text = "".join(line[indent:] for line in match["text"].splitlines(keepends=True))
        found.append(Block(number, match["language"], match["title"] or "", text))
    return found


def plans() -> dict[str, Plan]:
    """A plan for each page, by its path in the repository."""
    written = tomllib.loads(Path(__file__).with_name("pages.toml").read_text())
    return {page: _plan(table) for page, table in written.items()}


def _plan(table: dict[str, object]) -> Plan:
    def numbered(name: str) -> dict[int, object]:
        return {int(str(number)): value for number, value in texts(name).items()}

    def texts(name: str) -> dict[object, object]:
        inner = table.get(name, {})
        assert isinstance(inner, dict)
        return inner

    def lines(value: object) -> tuple[str, ...]:
        assert isinstance(value, list)
        return tuple(value)

    return Plan(
        needs=lines(table.get("needs", [])),
        services=lines(table.get("services", [])),
        given=lines(table.get("given", [])),
        before={number: lines(value) for number, value in numbered("before").items()},
        left_out={number: str(why) for number, why in numbered("left_out").items()},
        lines_left_out={str(line): str(why) for line, why in texts("lines_left_out").items()},
        codes={number: int(str(code)) for number, code in numbered("codes").items()},
    )
