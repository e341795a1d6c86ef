"""PLAIN: the words for each failure, and passwords only after the form."""

from __future__ import annotations

import pytest

from klamm.security.principals import Principal
from klamm.security.sasl.exchange import Accepted, Denied
from klamm.security.sasl.plain import PlainExchange
from klamm.security.secret import Secret

USERS = {"alice": Secret("wünder"), "empty": Secret("")}


def step(token: bytes) -> Accepted | Denied:
    return PlainExchange(USERS).step(token, 0)


def test_right_password() -> None:
    for authzid in (b"", b"alice"):
        told = step(authzid + b"\0alice\0" + "wünder".encode())
        assert told == Accepted(principal=Principal("User", "alice"))


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0a\0b\0c\0d\0e", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"\0empty\0", "Authentication failed: password not specified"),
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0bob\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0alice\0\xff", "Authentication failed: Invalid username or password"),
        (b"root\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (
            b"root\0alice\0w\xc3\xbcnder",
            "Authentication failed: Client requested an authorization id that is different from "
            "username",
        ),
    ],
)
def test_failures_have_kafkas_words(token: bytes, words: str) -> None:
    told = step(token)
    assert isinstance(told, Denied)
    assert told.told == words


def test_secret_does_not_show_itself() -> None:
    secret = USERS["alice"]
    assert f"{secret} {secret!r} {USERS} {PlainExchange(USERS)} {secret:>10}".count("wünder") == 0
    assert secret == Secret("wünder")
    assert secret != Secret("x")
    assert not secret.equals("wünde")
