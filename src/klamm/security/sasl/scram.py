"""SCRAM on the side of a broker: two messages, and nobody learns whether a user exists.

Somebody without a credential is given one that is made of the name and a secret of the cluster: the
same salt each time, with as many rounds and of the kind that users have, and a proof that never
fits. So the exchange takes the same steps and the same
time for every name. A client that says `tokenauth=true` logs in with a delegation token: its name
is the token's id, and the principal is the token's owner.

Stricter than Kafka, which no client notices: the nonce must be the whole one, and the channel
binding must repeat the header of the first message. librdkafka before 2.6 says its own nonce twice
(kcat of many distributions does), which is taken: both parts are those of this exchange.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, Protocol

from klamm.model import scram
from klamm.model.scram import ROUNDS_MIN, ScramMechanism
from klamm.security.credentials.scram import PLAIN_LOOK, Look, ScramCredential
from klamm.security.principals import USER, Principal
from klamm.security.sasl.exchange import OTHER_AUTHORIZATION_ID, Accepted, Challenge, Denied

_MESSAGE_SIZE_MAX: Final = 16 * 1024
_NONCE_SIZE: Final = 26  # as many characters as 130 bits have in base 36
_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"

_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS: Final = rf"(?P<extensions>(?:,[A-Za-z]+={_VALUE})*)"
_BASE64: Final = r"[A-Za-z0-9+/]*={0,2}"
_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
)
_FINAL: Final = re.compile(
    rf"(?P<unproven>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>(?:,[A-Za-oq-z]"
    rf"[A-Za-z]*={_VALUE})*)),p=(?P<proof>{_BASE64})"
)


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """A delegation token as a login needs it."""

    owner: Principal
    expires_ms: int
    credential: ScramCredential


class ScramSource(Protocol):
    """The source of credentials."""

    def user(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        """The credential of a user."""
        ...

    def token(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin | None:
        """The credential of a delegation token, and whose it is."""
        ...

    def looks(self, mechanism: ScramMechanism) -> Collection[Look]:
        """The looks that users' credentials have."""
        ...


def nonce_of(entropy: bytes) -> str:
    """A nonce in Kafka's alphabet, of at least 17 random bytes."""
    assert len(entropy) >= 17, "too little chance for a nonce"
    number, digits = int.from_bytes(entropy), []
    for _ in range(_NONCE_SIZE):
        number, digit = divmod(number, 36)
        digits.append(_ALPHABET[digit])
    return "".join(digits)


@dataclass(slots=True)
class ScramExchange:
    """One login."""

    mechanism: ScramMechanism
    source: ScramSource
    nonce: str  # ours
    decoy_key: bytes = field(repr=False)  # what the credentials of nobody are made of
    _first: _First | None = None

    def step(self, token: bytes, now_ms: int) -> Challenge | Accepted | Denied:
        """The first message gets a challenge, the second a verdict."""
        text = _text(token)
        if text is None:
            return Denied("a message of SCRAM that is none")
        if self._first is None:
            return self._begin(text, now_ms)
        return self._end(self._first, text)

    def _begin(self, text: str, now_ms: int) -> Challenge | Denied:
        match = _FIRST.fullmatch(text)
        if match is None:
            return Denied("the first message of SCRAM makes no sense, or asks for channel binding")
        name = _plain_name(match["name"])
        credential, principal, ends_ms = self._look_up(name, match["extensions"], now_ms)
        authzid = match["authzid"]
        both = match["nonce"] + self.nonce
        salt = base64.b64encode(credential.salt).decode()
        answer = f"r={both},s={salt},i={credential.rounds}"
        self._first = _First(
            header=match["header"],
            bare=match["bare"],
            answer=answer,
            nonce=both,
            doubled_nonce=match["nonce"] + both,
            other_id=authzid is not None and _plain_name(authzid) != name,
            credential=credential,
            principal=principal,
            ends_ms=ends_ms,
            holds=self._still_there(name, is_token=ends_ms is not None),
        )
        return Challenge(answer.encode())

    def _look_up(
        self, name: str, extensions: str, now_ms: int
    ) -> tuple[ScramCredential, Principal | None, int | None]:
        is_token = "tokenauth=true" in extensions.lower().split(",")
        # Made in any case: the time it takes would tell who is there.
        decoy = self._decoy(name, () if is_token else self.source.looks(self.mechanism))
        if is_token:
            token = self.source.token(self.mechanism, name)
            if token is not None and token.expires_ms > now_ms:
                owner = Principal(token.owner.type, token.owner.name, by_token=True)
                return token.credential, owner, token.expires_ms
        else:
            found = self.source.user(self.mechanism, name)
            if found is not None and found.rounds >= ROUNDS_MIN:
                return found, Principal(USER, name), None
        return decoy, None, None

    def _still_there(self, name: str, *, is_token: bool) -> Callable[[], bool]:
        find = self.source.token if is_token else self.source.user
        return lambda: find(self.mechanism, name) is not None

    def _decoy(self, name: str, looks: Collection[Look]) -> ScramCredential:
        """The credential of nobody, which looks like one of somebody."""

        def made(what: str) -> bytes:
            text = f"{self.mechanism}\0{what}\0{name}".encode()
            return hmac.digest(self.decoy_key, text, self.mechanism.digest)

        # Each name has its favourite of them, which others that come and go do not change.
        look = max(looks, key=lambda one: made(f"look {tuple(one)}"), default=PLAIN_LOOK)
        salt = hashlib.shake_256(made("salt")).digest(look.salt_size)
        if look.is_text:
            salt = bytes(ord(_ALPHABET[byte % len(_ALPHABET)]) for byte in salt)
        return ScramCredential(salt, look.rounds, made("stored"), made("server"))

    def _end(self, first: _First, text: str) -> Accepted | Denied:
        match = _FINAL.fullmatch(text)
        if match is None:
            return Denied("the last message of SCRAM makes no sense")
        proof, binding = _decoded(match["proof"]), _decoded(match["binding"])
        if binding != first.header.encode():
            return Denied("the channel binding is not that of the first message")
        if match["nonce"] not in (first.nonce, first.doubled_nonce):
            return Denied("the nonce is not that of the exchange")
        signed = f"{first.bare},{first.answer},{match['unproven']}".encode()
        kept = first.credential
        signature = scram.signature(self.mechanism, kept.stored_key, signed)
        if proof is None or len(proof) != len(signature):
            return Denied("the proof has another length")
        key = scram.xor(proof, signature)
        fits = hmac.compare_digest(scram.stored_key(self.mechanism, key), kept.stored_key)
        if not fits or first.principal is None:
            return Denied("unknown user, or wrong password")
        if first.other_id:
            return Denied(OTHER_AUTHORIZATION_ID, OTHER_AUTHORIZATION_ID)
        shown = scram.signature(self.mechanism, kept.server_key, signed)
        return Accepted(
            principal=first.principal,
            token=b"v=" + base64.b64encode(shown),
            ends_ms=first.ends_ms,
            holds=first.holds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _First:
    """The facts to remember between the two messages."""

    header: str
    bare: str
    answer: str
    nonce: str
    doubled_nonce: str  # as old librdkafkas say it
    other_id: bool
    credential: ScramCredential
    principal: Principal | None  # None: nobody
    ends_ms: int | None
    holds: Callable[[], bool]


def _text(token: bytes) -> str | None:
    if len(token) > _MESSAGE_SIZE_MAX:
        return None
    try:
        return token.decode("ascii")
    except UnicodeDecodeError:
        return None


def _plain_name(saslname: str) -> str:
    return saslname.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
