"""A newcomer's terminals: a shell opened with `make shell`, clusters in the foreground, a Python.

Each is a real process in the clone's directory, with nothing of the caller's environment but what
`clean` passes on.
"""

from __future__ import annotations

import os
import re
import secrets
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Final, Self

PATIENCE_S: Final = 240.0
_FAILED: Final = re.compile(r"^<failed (\d+)> (.*)$", re.MULTILINE)


class Stumbled(Exception):
    """Something on the page did not go as the page says."""


def clean(home: Path) -> dict[str, str]:
    """The environment of somebody who has just logged in: no virtualenv, no cache."""
    return {
        "HOME": str(home),
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TMPDIR": str(home / "tmp"),
    }


class Terminal:
    """A program at the end of a `make shell`, and all that it has printed."""

    def __init__(self, clone: Path, home: Path, make: tuple[str, ...], first: str) -> None:
        self.said = ""
        self._process = subprocess.Popen(
            [*make, "shell"],
            cwd=clone,
            env=clean(home),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.type(first)

    def type(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode() + b"\n")
        self._process.stdin.flush()

    def wait_for(self, words: str, since: int = 0) -> str:
        """What was printed from `since` on, once `words` are in it."""
        end = time.monotonic() + PATIENCE_S
        while words not in self.said[since:]:
            if not self._listen(end):
                raise Stumbled(f"{words!r} did not come, but:\n{self.said[since:]}")
        return self.said[since:]

    def _listen(self, end: float) -> bool:
        """Read on; False where no more will come in time."""
        assert self._process.stdout is not None
        left = end - time.monotonic()
        ready, _, _ = select.select([self._process.stdout], [], [], max(left, 0))
        heard = os.read(self._process.stdout.fileno(), 65536) if ready else b""
        self.said += heard.decode(errors="replace")
        return bool(heard)

    def ctrl_c(self) -> None:
        """End what runs, as Ctrl-C and leaving the shell do."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGINT)
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            raise Stumbled(f"Ctrl-C did not end it:\n{self.said}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ctrl_c()


class Shell(Terminal):
    """A shell that tells of every command that fails."""

    def __init__(self, clone: Path, home: Path, make: tuple[str, ...]) -> None:
        super().__init__(clone, home, make, "trap 'echo \"<failed $?> $BASH_COMMAND\"' ERR")

    def run(self, text: str, code: int = 0) -> str:
        """Type a block; what it printed. Every command but the last must end with 0."""
        since, mark = len(self.said), f"<done {secrets.token_hex(4)}>"
        self.type(f"{text}\necho '{mark}'")
        printed = self.wait_for(mark, since).partition(mark)[0]
        failed = [(int(found[1]), found[2]) for found in _FAILED.finditer(printed)]
        if [at for at, _ in failed] != ([code] if code else []):
            raise Stumbled(f"{text}\nfailed: {failed}, expected {code}\n{printed}")
        return printed


class Server(Terminal):
    """A cluster that runs in the foreground."""

    def __init__(self, clone: Path, home: Path, make: tuple[str, ...], line: str) -> None:
        super().__init__(clone, home, make, f"exec env {line}")
        self.wait_for("ready bootstrap=")


class Interpreter(Terminal):
    """The Python that stands first on the path."""

    def __init__(self, clone: Path, home: Path, make: tuple[str, ...]) -> None:
        super().__init__(clone, home, make, "exec python -i -q")

    def run(self, text: str) -> str:
        since, mark = len(self.said), f"<done {secrets.token_hex(4)}>"
        # As one statement: at the prompt an empty line would end a function too early.
        self.type(f"exec(compile({text!r}, 'the page', 'exec'))")
        self.type(f"print('<done ' + {mark[6:]!r})")
        printed = self.wait_for(mark, since).partition(mark)[0]
        if "Traceback" in printed:
            raise Stumbled(f"{text}\n{printed}")
        return printed
