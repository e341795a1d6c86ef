"""Does what a page says, word for word, in a clone that lies ready.

    unshare -rnmpf --mount-proc --kill-child python tests/newcomer/follow.py CLONE HOME PAGE

It has a network of its own, so that the default ports are free and nobody else is met, and names
for the hosts of the examples (h1, zk1 ...). `pip install` needs the world outside: those lines are
typed before (`test_newcomer.py`). A cluster that a page starts runs until it starts another.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from newcomer.pages import SHELL, Block, Plan, blocks, plans
from newcomer.terminals import Interpreter, Server, Shell, Stumbled

HOSTS: Final = ("h1", "h2", "h3", "zk1", "zk2", "zk3")
_SERVER: Final = re.compile(r"(\w+=\S+ )*(klamm up|klamm broker|make up)\b")
_ELSEWHERE: Final = re.compile(r"pip install\b|make (shell|install)\b")


class Reader:
    """Somebody who types what a page says."""

    def __init__(self, clone: Path, home: Path, make: tuple[str, ...]) -> None:
        self._at = (clone, home, make)
        self.clone = clone
        self.home = home
        self.shell = Shell(*self._at)
        self.first: Server | Interpreter | None = None  # what runs in terminal 1
        self.python: Interpreter | None = None  # for what the page gives without a place
        self.services: list[Server] = []
        self.printed: str | None = None  # by what was done last
        self.lines_left_out: dict[str, str] = {}

    def follow(self, page: str, plan: Plan, until: int | None) -> None:
        self.services = [Server(*self._at, line) for line in plan.services]
        self.lines_left_out = plan.lines_left_out
        for line in plan.given:
            self._line(line, 0)
        for block in blocks(page)[:until]:
            for line in plan.before.get(block.number, ()):
                self._line(line, 0)
            if block.number in plan.left_out:
                self.printed = None
                continue
            sys.stdout.write(f"{page}, block {block.number}\n")
            self._do(block, plan.codes.get(block.number, 0))

    def _do(self, block: Block, code: int) -> None:
        if block.language == "text":
            self._compare(block.text)
        elif block.title.endswith(".py"):
            self._file(block.title).write_text(block.text)
        elif block.language == "python" and "def test_" in block.text:
            # Outside the clone, as the pages say: klamm's own settings of pytest hold in there.
            self._file("~/test_of_the_page.py").write_text(block.text)
            self.printed = self.shell.run("pytest -q ~/test_of_the_page.py")
        elif block.language == "python":
            self._python(block)
        elif block.language in SHELL:
            self.printed = ""
            lines = list(statements(block.text))
            for at, line in enumerate(lines):
                self._line(line, code if at == len(lines) - 1 else 0)
        else:
            raise Stumbled(f"nobody can type {block.language}: give a reason in pages.toml")

    def _file(self, title: str) -> Path:
        """Where a page says that a file is: in the clone, or below the home directory."""
        below_home = title.removeprefix("~/")
        return self.home / below_home if below_home != title else self.clone / title

    def _line(self, line: str, code: int) -> None:
        if _ELSEWHERE.match(line) or line in self.lines_left_out:
            return
        if line == "Ctrl-C":
            self._end_first()
        elif _SERVER.match(line):
            self._end_first()
            self.first = Server(*self._at, line.partition(" #")[0])
            self.printed = self.first.said
        else:
            self.printed = (self.printed or "") + self.shell.run(line, code)

    def _python(self, block: Block) -> None:
        if block.title != "terminal 1":
            self.python = self.python or Interpreter(*self._at)
            self.printed = self.python.run(block.text)
            return
        if not isinstance(self.first, Interpreter):
            self._end_first()
            self.first = Interpreter(*self._at)
        self.printed = self.first.run(block.text)

    def _compare(self, text: str) -> None:
        if self.printed is None:
            raise Stumbled(f"nothing was typed that could print this:\n{text}")
        missing = [line for line in masked(text) if line not in masked(self.printed)]
        if missing:
            raise Stumbled(f"the page promises {missing}, and this came:\n{self.printed}")

    def _end_first(self) -> None:
        if self.first is not None:
            self.first.ctrl_c()
        self.first = None

    def leave(self) -> None:
        self._end_first()
        for other in (self.python, *self.services, self.shell):
            if other is not None:
                other.ctrl_c()


def statements(text: str) -> Iterator[str]:
    """The lines of a block; one that ends in a backslash goes on."""
    yield from (line for line in text.replace("\\\n", " ").splitlines() if line.strip())


def masked(text: str) -> list[str]:
    """Lines without numbers, directories and the width of columns."""
    without = re.sub(r"(?<![\w.])/[\w./-]+/", "/", text)
    numbers = re.sub(r"\bN (ms|s|min|h)\b", "N s", re.sub(r"\d+", "N", without))
    return [" ".join(line.split()) for line in numbers.splitlines()]


def _prepare(home: Path) -> None:
    """Bring the loopback up, and give the hosts of the examples names."""
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    names = home / "hosts"
    names.write_text(f"127.0.0.1 localhost {' '.join(HOSTS)}\n")
    subprocess.run(["mount", "--bind", str(names), "/etc/hosts"], check=True)


def main() -> int:
    """Follow the page; 1 and the place where it went wrong, if it did."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clone", type=Path)
    parser.add_argument("home", type=Path)
    parser.add_argument("page")
    parser.add_argument("--make", default="make", help="make, with what it needs before a target")
    parser.add_argument("--until", type=int, help="the last block to do")
    given = parser.parse_args()
    _prepare(given.home)
    reader = Reader(given.clone, given.home, tuple(given.make.split()))
    try:
        reader.follow(given.page, plans()[given.page], given.until)
    except Stumbled as why:
        sys.stdout.write(f"{given.page}: {why}\n")
        if isinstance(reader.first, Server):
            sys.stdout.write(f"the cluster had said:\n{reader.first.said}\n")
        return 1
    finally:
        reader.leave()
    return 0


if __name__ == "__main__":
    sys.exit(main())
