"""Draws `docs/cast.svg`: a real session in two terminals, so that the picture cannot lie.

    python tools/draw_cast.py [FILE]

It types each command below, word for word, and writes down what came out. It does so in a network
and a home of its own (`unshare`), so that the ports are the default ones and free.
"""

from __future__ import annotations

import html
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PICTURE: Final = ROOT / "docs" / "cast.svg"
CLUSTER: Final = "klamm up --processes"
COMMANDS: Final = (
    "klamm topics create orders -p 3 -r 3",
    "echo k1:hello | klamm produce orders --key-separator :",
    "klamm consume orders --key-separator ' = '",
    "klamm cluster kill 1",
    "klamm status",
    "klamm topics describe orders",
    "klamm story orders -n 6",
)
ALONE: Final = ("unshare", "-rnmpf", "--mount-proc", "--kill-child")
_INSIDE: Final = "--inside"

_WIDTH: Final = 1010
_LINE: Final = 19
_INK, _DIM, _GREEN, _PAPER = "#d8dee9", "#7b8794", "#a3be8c", "#20242c"
_TEXT: Final = re.compile(r"<text [^>]*>(.*?)</text>")


def session(home: Path) -> list[str]:
    """What both terminals show, a line each; typed lines begin with `$ `."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    environment = {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin:/usr/sbin:/sbin",
        "LANG": "C.UTF-8",
    }
    with subprocess.Popen(
        ["bash", "-c", f"exec {CLUSTER}"], env=environment, stdout=subprocess.PIPE, text=True
    ) as cluster:
        assert cluster.stdout is not None
        lines = [f"$ {CLUSTER}", _without_addresses_of_the_store(cluster.stdout.readline())]
        for command in COMMANDS:
            lines += ["", f"$ {command}", *_typed(command, environment)]
        cluster.send_signal(signal.SIGINT)
    return lines


def _without_addresses_of_the_store(ready: str) -> str:
    """The line as it is; the port of the store is another each time, and of no use in a picture."""
    return re.sub(r" zookeeper=\S+", "", ready).rstrip()


def _typed(command: str, environment: dict[str, str]) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    # A cluster that misses a broker is not healthy, and `status` says so with 1.
    assert done.returncode == (1 if command == "klamm status" else 0), done.stdout
    return done.stdout.rstrip().splitlines()


def svg(lines: list[str]) -> str:
    """The lines in a window of a terminal."""
    height = _LINE * len(lines) + 56
    texts = "\n".join(
        f'<text x="22" y="{54 + _LINE * at}" fill="{_colour(line)}" xml:space="preserve">'
        f"{html.escape(line)}</text>"
        for at, line in enumerate(lines)
    )
    dots = "".join(
        f'<circle cx="{24 + 18 * at}" cy="20" r="6" fill="{colour}"/>'
        for at, colour in enumerate(("#bf616a", "#ebcb8b", "#a3be8c"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}">\n'
        f'<rect width="100%" height="100%" rx="10" fill="{_PAPER}"/>\n{dots}\n'
        f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13.5">\n'
        f"{texts}\n</g>\n</svg>\n"
    )


def _colour(line: str) -> str:
    if line.startswith("$ "):
        return _GREEN
    return _DIM if re.match(r"\d{4}-\d\d-\d\d$|\d\d:\d\d", line) else _INK


def shown(picture: Path) -> list[str]:
    """The lines of a picture that was drawn before."""
    return [html.unescape(text) for text in _TEXT.findall(picture.read_text())]


def main(argv: list[str]) -> int:
    """Draw; outside of a network of its own, go into one first."""
    if argv[:1] != [_INSIDE]:
        to = str(Path(argv[0]).absolute() if argv else PICTURE)
        return subprocess.run(
            [*ALONE, sys.executable, __file__, _INSIDE, to], check=False
        ).returncode
    with tempfile.TemporaryDirectory(prefix="cast-", dir=os.environ.get("TMPDIR")) as home:
        Path(argv[1]).write_text(svg(session(Path(home))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
