"""The opening of a connection: what is said before the first request.

Each opening is a generator of steps: it yields a request (key, version, body), is sent the body of
the answer, and returns when all is said. It waits for nothing itself, so both drivers perform it.
First both sides agree on versions; then, where the settings ask for it, we sign in by SASL. A
broker may limit how long that holds (KIP-368): then the same steps are performed once more on the
open connection before the time is over.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, TypeVar

from klamm.client.addresses import text
from klamm.client.conversation import Conversation
from klamm.client.errors import ClientError, ConnectionLost, Distrusted, VersionMismatch, check
from klamm.client.security import Security, sasl, tls
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import ApiKey, Versions
from klamm.protocol.codec import decode_response, encode_request
from klamm.protocol.messages import api_versions
from klamm.protocol.private import SOFTWARE_NAME
from klamm.version import __version__

T = TypeVar("T")
Step = tuple[int, int, bytes]
Steps = Generator[Step, memoryview, T]

# The newest form, and the one that every broker understands.
_VERSIONS_ASKED: Final = (3, 0)
# A session is renewed when this part of its time is over; clocks and networks need the rest.
_RENEWED_AFTER: Final = 0.85
_SAID_MAX: Final = 300  # characters of a broker's own words in an error


def negotiate(talk: Conversation[Any]) -> Steps[None]:
    """Asks what the broker speaks; `version_of` knows afterwards."""
    key = ApiKey.API_VERSIONS
    message = api_versions.Request(SOFTWARE_NAME, __version__)
    for version in _VERSIONS_ASKED:
        answer = yield key, version, encode_request(key, version, message)
        # A broker that does not know the version says so in the oldest one.
        if int.from_bytes(answer[:2], "big") != ErrorCode.UNSUPPORTED_VERSION:
            break
    else:
        raise VersionMismatch(f"{text(talk.address)} does not say which versions it speaks")
    response = decode_response(key, version, answer)
    check(response.error_code, f"asking {text(talk.address)} for its versions")
    talk.versions = {a.api_key: Versions(a.min_version, a.max_version) for a in response.api_keys}


def sign_in(talk: Conversation[Any], security: Security) -> Steps[float | None]:
    """Proves by SASL who we are; returns in how many seconds to do so again, None for never."""
    from klamm.protocol.messages import sasl_authenticate

    yield from _agree_on_mechanism(talk, security)
    tokens = sasl.start(security)
    token, shown = next(tokens), b""
    while True:
        request = sasl_authenticate.Request(auth_bytes=token)
        answer = yield from _call(talk, ApiKey.SASL_AUTHENTICATE, request)
        if answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            raise _refused(talk, answer.error_message, shown)
        check(answer.error_code, f"signing in at {text(talk.address)}", answer.error_message)
        shown = bytes(answer.auth_bytes)
        try:
            token = tokens.send(shown)
        except StopIteration:
            lifetime_ms = int(answer.session_lifetime_ms)
            return lifetime_ms / 1000 * _RENEWED_AFTER if lifetime_ms > 0 else None


def advance(steps: Steps[T], answer: memoryview | None) -> tuple[Step | None, T | None]:
    """Goes on with an opening: the next step, or None and what the opening came to."""
    try:
        return next(steps) if answer is None else steps.send(answer), None
    except StopIteration as end:
        return None, end.value


def lost(talk: Conversation[Any], security: Security, fault: Exception | None) -> ClientError:
    """The error for a connection that ended; `fault` is None where the broker closed it."""
    if isinstance(fault, OSError) and not tls.is_end(fault):
        return tls.failure(talk.address, fault, opening=False)
    return _hung_up(talk, security)


def _hung_up(talk: Conversation[Any], security: Security) -> ConnectionLost:
    """A broker that closed the connection, with a guess at its reason where it did so at once."""
    guess = ""
    if talk.due_key == ApiKey.API_VERSIONS:
        if not security.is_encrypted:
            guess = "wants TLS does: see security.protocol"
        elif security.certificate is None:
            guess = "asks for a certificate does: see ssl.keystore.location"
        else:
            guess = "does not trust our certificate does"
    elif talk.is_young and ApiKey.SASL_HANDSHAKE in talk.versions and not security.signs_in:
        guess = "wants SASL does: see security.protocol"
    why = "it closed the connection" + (f", as one that {guess}" if guess else "")
    return ConnectionLost.to(talk.address, why)


def _agree_on_mechanism(talk: Conversation[Any], security: Security) -> Steps[None]:
    from klamm.protocol.messages import sasl_handshake

    place = text(talk.address)
    without = security.protocol.removeprefix("SASL_")
    no_door = Distrusted(f"nobody can sign in at {place}: set security.protocol to {without}")
    if ApiKey.SASL_HANDSHAKE not in talk.versions:
        raise no_door
    request = sasl_handshake.Request(mechanism=security.mechanism)
    answer = yield from _call(talk, ApiKey.SASL_HANDSHAKE, request)
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise no_door
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        known = ", ".join(answer.mechanisms)[:_SAID_MAX] or "none at all"
        raise Distrusted(f"{place} does not know SASL {security.mechanism}, but {known}")
    check(answer.error_code, f"signing in at {place}")


def _refused(talk: Conversation[Any], message: str | None, shown: bytes) -> Distrusted:
    """The broker's no. OAUTHBEARER tells the reason one step earlier than the refusal."""
    why = message or "the user or the password is wrong"
    if shown.startswith(b"{"):
        why += f" ({shown.decode(errors='replace')})"
    return Distrusted(f"{text(talk.address)} refused to let us in: {why[:_SAID_MAX]}")


def _call(talk: Conversation[Any], key: ApiKey, request: Any) -> Steps[Any]:
    version = talk.version_of(key)
    answer = yield key, version, encode_request(key, version, request)
    return decode_response(key, version, answer)
