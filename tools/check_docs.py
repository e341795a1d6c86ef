"""Checks what the docs tell a reader to type, and where their links lead.

python tools/check_docs.py     prints every command, option, make target or link that does not exist

Looked at are README.md, CONTRIBUTING.md and docs/: lines of code blocks and code spans that begin
with `klamm` or `make`, and links to files of this repository.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from commands import Leaf, all_leaves

ROOT: Final = Path(__file__).parents[1]
GENERATED: Final = frozenset({"cli.md"})  # made from the commands themselves

_FENCE: Final = re.compile(r"^\s*(`{3,}|~{3,})(.*)$")
_SPAN: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_BEFORE: Final = r"(?:\$ |> )?(?:\.venv/bin/|uvx |pipx run )?"
_PROMPT: Final = re.compile(rf"^\s*{_BEFORE}((?:klamm|make)(?: .*)?)$")
_WORD: Final = re.compile(r"[a-z][a-z-]*\Z")
_TARGET: Final = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)


def pages(root: Path = ROOT) -> list[Path]:
    """Every page a reader sees."""
    named = [root / "README.md", root / "CONTRIBUTING.md"]
    return [*named, *sorted((root / "docs").rglob("*.md"))]


def typed(text: str) -> Iterator[tuple[int, str]]:
    """The lines and spans that a reader would type, with their line numbers."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if mark:
            fence = "" if fence else mark[1]
            continue
        found = [line] if fence else _SPAN.findall(line)
        for piece in found:
            command = _PROMPT.match(piece)
            if command:
                yield number, command[1]


def faults(command: str, leaves: Mapping[tuple[str, ...], Leaf], targets: set[str]) -> list[str]:
    """What is wrong with one command line, in words."""
    try:
        words = shlex.split(command.split(" | ")[0], comments=True)
    except ValueError:
        return []  # a sentence with an apostrophe, not a command
    if words[0] == "make":
        named = [word for word in words[1:] if _WORD.match(word)]
        return [f"make has no target {word}" for word in named if word not in targets]
    return _klamm_faults(words[1:], leaves)


def _klamm_faults(words: list[str], leaves: Mapping[tuple[str, ...], Leaf]) -> list[str]:
    path: list[str] = []
    for word in words:
        if not any(leaf[: len(path) + 1] == (*path, word) for leaf in leaves):
            break
        path.append(word)
    rest = words[len(path) :]
    if not path:
        named = [word for word in rest[:1] if _WORD.match(word)]
        return [f"klamm has no command {word}" for word in named]
    leaf = leaves.get(tuple(path))
    if leaf is None:
        named = [word for word in rest[:1] if _WORD.match(word)]
        return [f"klamm {' '.join(path)} has no command {word}" for word in named]
    known = {name for param in leaf.params for name in param.names} | {"--help", "-h"}
    given = [word.partition("=")[0] for word in rest if re.match(r"--[a-z]", word)]
    return [f"klamm {' '.join(path)} has no option {name}" for name in given if name not in known]


def dead_links(page: Path, root: Path = ROOT) -> Iterator[str]:
    """Links of a page to files that are not there."""
    for target in _LINK.findall(page.read_text()):
        place = target.partition("#")[0]
        if place and "://" not in place and not place.startswith("mailto:"):
            base = root if place.startswith("/") else page.parent
            if not (base / place.lstrip("/")).exists():
                yield f"dead link {target}"


def check(root: Path = ROOT) -> list[str]:
    """Everything that is wrong, each as one line."""
    leaves = {leaf.words: leaf for leaf in all_leaves()}
    targets = set(_TARGET.findall((root / "Makefile").read_text()))
    wrong = []
    for page in pages(root):
        at = page.relative_to(root)
        wrong += [f"{at}: {fault}" for fault in dead_links(page, root)]
        if page.name not in GENERATED:
            for number, command in typed(page.read_text()):
                wrong += [f"{at}:{number}: {f}" for f in faults(command, leaves, targets)]
    return wrong


def main() -> int:
    """Print what is wrong; the exit code says whether anything is."""
    wrong = check()
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
