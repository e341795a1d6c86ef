"""A nursery of brokers in a Python of its own: `python -m klamm.app.nursery_main FD PARENT`."""

from __future__ import annotations

import logging
import socket
import sys

from klamm.app import nursery, supervised


def _on_birth(name: str) -> None:
    """Have a broker's warnings on stderr, under its name, as a program without logging has them."""
    logging.basicConfig(level=logging.WARNING, format=f"{name}: %(message)s")


def main() -> int:
    """Bear brokers for the process at the other end of the socket."""
    descriptor, parent = map(int, sys.argv[1:])
    nursery.end_with(parent)
    channel = socket.socket(fileno=descriptor)
    return nursery.bear(channel, lambda given: supervised.live(given, _on_birth))


if __name__ == "__main__":
    sys.exit(main())
