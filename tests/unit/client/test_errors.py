"""Errors in words that a person can act on."""

from __future__ import annotations

import pytest

from klamm.client.errors import ConnectionLost, NobodyThere, nobody

HINT = "; `klamm up` starts a cluster on this machine"
REFUSED = "connection refused"


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ([NobodyThere(("127.0.0.1", 1), REFUSED)], f"127.0.0.1:1: {REFUSED}{HINT}"),
        (
            [NobodyThere(("127.0.0.1", port), REFUSED) for port in (1, 2)],
            f"127.0.0.1:1, 127.0.0.1:2: {REFUSED}{HINT}",
        ),
        (
            [NobodyThere(("h1", 1), REFUSED), NobodyThere(("h2", 1), "no route")],
            f"h1:1: {REFUSED}; h2:1: no route",
        ),
        ([NobodyThere(("localhost", 1), REFUSED), ConnectionLost("it hung up")], "it hung up"),
    ],
)
def test_nobody_is_there(faults: list[Exception], words: str) -> None:
    assert str(nobody(faults)) == f"no broker can be reached: {words}"
