"""Draws `docs/cast.svg`: a real session in a terminal, so that the picture cannot lie.

    python docs/cast.py

It starts a cluster, types each command below and writes down what came out.
"""

from __future__ import annotations

import html
import os
import subprocess
import sys
from pathlib import Path

from klamm import Cluster

COMMANDS = (
    "klamm topics create orders -p 2 -r 3",
    "echo k1:hello | klamm produce orders --key-separator :",
    "klamm consume orders --key-separator ' = '",
    None,  # here the broker that leads orders-0 is killed
    "klamm topics describe orders",
    "klamm story orders -n 5",
)
WIDTH = 960
LINE = 19
INK, DIM, GREEN, PAPER = "#d8dee9", "#7b8794", "#a3be8c", "#20242c"


def main() -> None:
    lines = [("$ klamm up --ephemeral --port 0", GREEN)]
    with Cluster(3) as cluster:
        lines.append((f"ready bootstrap={cluster.bootstrap_servers}", INK))
        for command in COMMANDS:
            if command is None:
                leader = cluster.wait_for_leader("orders")
                cluster.kill_broker(leader)
                cluster.wait_for_leader("orders", other_than=leader)
                lines += [("", INK), (f"# broker {leader} is killed", DIM)]
                continue
            lines += [("", INK), (f"$ {command}", GREEN)]
            lines += [(line, INK) for line in _run(command, cluster.bootstrap_servers)]
    Path(__file__).with_name("cast.svg").write_text(_svg(lines))


def _run(command: str, bootstrap: str) -> list[str]:
    env = os.environ | {
        "KLAMM_BOOTSTRAP_SERVER": bootstrap,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-c", command],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout.rstrip().splitlines()


def _svg(lines: list[tuple[str, str]]) -> str:
    height = LINE * len(lines) + 56
    texts = "\n".join(
        f'<text x="22" y="{54 + LINE * at}" fill="{colour}" xml:space="preserve">'
        f"{html.escape(text)}</text>"
        for at, (text, colour) in enumerate(lines)
    )
    dots = "".join(
        f'<circle cx="{24 + 18 * at}" cy="20" r="6" fill="{colour}"/>'
        for at, colour in enumerate(("#bf616a", "#ebcb8b", "#a3be8c"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}">\n'
        f'<rect width="100%" height="100%" rx="10" fill="{PAPER}"/>\n{dots}\n'
        f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13.5">\n'
        f"{texts}\n</g>\n</svg>\n"
    )


if __name__ == "__main__":
    main()
