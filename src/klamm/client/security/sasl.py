"""The steps of SASL, by mechanism, without a connection.

Each mechanism is a generator: it yields what to show the broker, is sent what the broker shows in
return, and returns when it is content. A client that checks a broker by SCRAM leaves one that
cannot prove that it knows the password, too.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
import secrets
from collections.abc import Callable, Generator, Mapping
from typing import Final

from klamm.client.errors import Distrusted
from klamm.client.security.settings import Security
from klamm.client.security.tokens import checked
from klamm.model import scram as arithmetic
from klamm.model.errors import UsageError
from klamm.model.scram import ROUNDS_MIN, ScramMechanism

Tokens = Generator[bytes, bytes, None]

# Below `ROUNDS_MIN` a password could be guessed from what is overheard. A broker that asks for more
# than this would only keep us busy.
_ROUNDS_MAX: Final = 1_000_000
_MESSAGE_SIZE_MAX: Final = 4096
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,9}")


def start(security: Security) -> Tokens:
    """The steps of the mechanism that the settings name."""
    return _MECHANISMS[security.mechanism](security)


def plain(security: Security) -> Tokens:
    """Says the user and the password (RFC 4616)."""
    if "\0" in security.username + security.password:
        raise UsageError("a user or a password for SASL PLAIN has no zero byte")
    yield b"\0" + security.username.encode() + b"\0" + security.password.encode()


def oauthbearer(security: Security) -> Tokens:
    """Shows a token (RFC 7628)."""
    assert security.token is not None, "settings without a source of tokens are refused"
    token = checked(security.token().encode(), "the source of tokens")
    complaint = yield b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"
    if complaint:
        # The broker refuses only after it has been told that its reason was heard.
        yield b"\x01"
        raise Distrusted(
            f"the broker does not take the token: {complaint.decode(errors='replace')}"
        )


def scram(security: Security, nonce: str | None = None) -> Tokens:
    """Proves that we know the password, and has it proven, without saying it (RFC 5802, 7677)."""
    mechanism = ScramMechanism(security.mechanism)
    user = security.username.replace("=", "=3D").replace(",", "=2C")
    mine = nonce or base64.b64encode(secrets.token_bytes(24)).decode()
    first = f"n={user},r={mine}" + (",tokenauth=true" if security.is_delegated else "")
    server_first = _decoded((yield f"n,,{first}".encode()))
    both, salt, rounds = _challenge(server_first, mine)
    salted = arithmetic.salted_password(mechanism, security.password, salt, rounds)
    last = f"c=biws,r={both}"
    signed = f"{first},{server_first},{last}".encode()
    proof = arithmetic.proof(mechanism, salted, signed)
    answer = _fields(_decoded((yield f"{last},p={base64.b64encode(proof).decode()}".encode())))
    key = arithmetic.server_key(mechanism, salted)
    shown = arithmetic.signature(mechanism, key, signed)
    if not hmac.compare_digest(answer.get("v", "").encode(), base64.b64encode(shown)):
        raise Distrusted("the broker has not proven by SCRAM that it knows the password")


def _challenge(server_first: str, mine: str) -> tuple[str, bytes, int]:
    """The nonce of both sides, the salt and the number of rounds; nothing is taken on trust."""
    told = _fields(server_first)
    both, rounds = told.get("r", ""), told.get("i", "")
    try:
        salt = base64.b64decode(told.get("s", ""), validate=True)
    except (binascii.Error, ValueError):
        salt = b""
    if (
        "m" in told  # an extension that we must understand, and do not
        or not both.startswith(mine)
        or both == mine
        or not salt
        or not _NUMBER.fullmatch(rounds)
        or not ROUNDS_MIN <= int(rounds) <= _ROUNDS_MAX
    ):
        raise Distrusted(f"the broker's answer to SCRAM cannot be trusted: {server_first[:200]!r}")
    return both, salt, int(rounds)


def _decoded(message: bytes) -> str:
    try:
        if len(message) <= _MESSAGE_SIZE_MAX:
            return message.decode()
    except UnicodeDecodeError:
        pass
    raise Distrusted("the broker's answer to SCRAM is no message of it")


def _fields(message: str) -> Mapping[str, str]:
    pairs = (part.partition("=") for part in message.split(","))
    return {name: value for name, _, value in pairs}


_MECHANISMS: Final[Mapping[str, Callable[[Security], Tokens]]] = {
    "PLAIN": plain,
    "SCRAM-SHA-256": scram,
    "SCRAM-SHA-512": scram,
    "OAUTHBEARER": oauthbearer,
}
