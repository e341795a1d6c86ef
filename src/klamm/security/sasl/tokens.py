"""Tokens of OAUTHBEARER: JSON web tokens, unsecured ones for development and signed ones.

Signatures are checked by PyJWT with keys that the shell has fetched; times, issuer, audience, scope
and subject are checked here, because this room has no clock. A token chooses neither its algorithm
nor its key freely: the algorithm is one of a fixed list without `none` and without shared secrets,
and the key is the one whose id, type, use and algorithm fit.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from klamm.installing import install_command
from klamm.model.errors import Refused
from klamm.security.sasl.oauthbearer import TokenAccepted, TokenRefused

_TOKEN_SIZE_MAX: Final = 64 * 1024
_KEY_ID_SIZE_MAX: Final = 1000
_TIME_MAX_S: Final = 10**11  # some thousand years
_KEYS_MAX: Final = 1000
_TRIES_MAX: Final = 16  # keys, for a token that does not say which
# Signatures by a private key only. A shared secret would let every broker's reader forge tokens.
ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512",
    "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """The demands on the claims of a token."""

    subject_claim: str = "sub"
    scope_claim: str = "scope"
    required_scopes: tuple[str, ...] = ()
    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    skew_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class UnsecuredTokens:
    """Takes tokens that nobody signed: whoever connects is whoever it says. For development."""

    rules: TokenRules

    def __call__(self, token: str, now_ms: int) -> TokenAccepted | TokenRefused:
        parts = token.split(".")
        if len(token) > _TOKEN_SIZE_MAX or len(parts) != 3 or parts[2] or not all(parts[:2]):
            return TokenRefused("an unsecured token has two parts and an empty signature")
        header, claims = _json(parts[0]), _json(parts[1])
        if header is None or claims is None:
            return TokenRefused("the parts of the token are no JSON objects")
        if header.get("alg") != "none":
            return TokenRefused("the algorithm of an unsecured token is none")
        return check_claims(claims, self.rules, now_ms, is_signed=False)


class _Key(NamedTuple):
    """One key, ready to check signatures by one algorithm."""

    kid: str | None
    algorithm: str
    jwk: Any  # a PyJWK


@dataclass(frozen=True, slots=True)
class KeySet:
    """The public keys of a token service (JWKS, RFC 7517)."""

    keys: tuple[_Key, ...] = field(repr=False)


def key_set(text: str) -> KeySet | Refused:
    """Reads a JWKS; keys of kinds that nobody signs with here are left out."""
    try:
        import jwt
    except ImportError:
        return Refused(f"signed tokens need a library: {install_command('secure')}")
    try:
        listed = json.loads(text)["keys"]
        if not isinstance(listed, list) or len(listed) > _KEYS_MAX:
            raise ValueError("no list of keys")
    except (ValueError, KeyError, TypeError, RecursionError):
        return Refused(f'the JWKS is no JSON object with a list of at most {_KEYS_MAX} "keys"')
    keys = []
    for one in listed:
        kid = one.get("kid") if isinstance(one, dict) else None
        for algorithm in _algorithms(one):
            try:
                keys.append(_Key(kid, algorithm, jwt.PyJWK(one, algorithm)))
            except (jwt.PyJWTError, ValueError, TypeError, KeyError):
                continue  # one strange key must not take the others away
    if not keys:
        return Refused("the JWKS has no public key to check signatures with")
    return KeySet(tuple(keys))


_CURVES: Final = {
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA",),
    "Ed448": ("EdDSA",),
}


def _algorithms(key: object) -> Sequence[str]:
    """The algorithms that a key of a JWKS is for."""
    if not isinstance(key, dict) or key.get("use", "sig") != "sig":
        return ()
    if key.get("kty") == "RSA":
        possible: Sequence[str] = [name for name in ALGORITHMS if name[0] in "RP"]
    elif key.get("kty") in ("EC", "OKP"):
        possible = _CURVES.get(str(key.get("crv")), ())
    else:
        return ()
    return [name for name in possible if key.get("alg", name) == name]


@dataclass(frozen=True, slots=True)
class SignedTokens:
    """Takes tokens that one of these keys signed."""

    keys: KeySet
    rules: TokenRules

    def __call__(self, token: str, now_ms: int) -> TokenAccepted | TokenRefused:
        claims = self._verified(token)
        if isinstance(claims, TokenRefused):
            return claims
        return check_claims(claims, self.rules, now_ms, is_signed=True)

    def _verified(self, token: str) -> dict[str, Any] | TokenRefused:
        import jwt

        header = _json(token.partition(".")[0]) if len(token) <= _TOKEN_SIZE_MAX else None
        if header is None:
            return TokenRefused("the token is none")
        algorithm = header.get("alg")
        if algorithm not in ALGORITHMS:
            return TokenRefused(f"the algorithm {algorithm!r} is not taken")
        kid = header.get("kid")
        candidates = [
            key.jwk
            for key in self.keys.keys
            if key.algorithm == algorithm and kid in (None, key.kid)
        ]
        if not candidates:
            return TokenRefused("no key of the JWKS fits the token's key id and algorithm")
        for key in candidates[:_TRIES_MAX]:
            try:
                payload = jwt.PyJWS().decode(token, key, algorithms=[algorithm])
            except (jwt.PyJWTError, ValueError, TypeError):
                continue
            claims = _object(payload)
            return TokenRefused("the claims are no JSON object") if claims is None else claims
        return TokenRefused("the signature does not fit")


def unknown_key_id(keys: KeySet, token: str) -> str | None:
    """The key id of a token that no key has: a reason to fetch the keys early."""
    header = _json(token.partition(".")[0]) if len(token) <= _TOKEN_SIZE_MAX else None
    kid = header.get("kid") if header else None
    if not isinstance(kid, str) or not kid or len(kid) > _KEY_ID_SIZE_MAX:
        return None
    return None if any(key.kid == kid for key in keys.keys) else kid


def check_claims(
    claims: Mapping[str, Any], rules: TokenRules, now_ms: int, *, is_signed: bool
) -> TokenAccepted | TokenRefused:
    """Checks what a token claims; whoever calls has checked who signed it."""
    subject = claims.get(rules.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        return TokenRefused(f"the claim {rules.subject_claim} names nobody")
    times = _times(claims, needs_issue_time=is_signed)
    if isinstance(times, TokenRefused):
        return times
    issued_ms, not_before_ms, ends_ms = times
    if now_ms - rules.skew_ms >= ends_ms:
        return TokenRefused("the token has expired")
    if issued_ms is not None and issued_ms > now_ms + rules.skew_ms:
        return TokenRefused("the token was issued in the future")
    if issued_ms is not None and ends_ms <= issued_ms:
        return TokenRefused("the token ends before it was issued")
    if not_before_ms is not None and not_before_ms > now_ms + rules.skew_ms:
        return TokenRefused("the token does not hold yet")
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        return TokenRefused("the token is by another issuer")
    if is_signed and (refused := _audience_fault(claims.get("aud"), rules.audiences)):
        return refused
    scopes = _scopes(claims.get(rules.scope_claim))
    if scopes is None:
        return TokenRefused(f"the claim {rules.scope_claim} is no list of scopes")
    if missing := [scope for scope in rules.required_scopes if scope not in scopes]:
        return TokenRefused(
            f"scopes are missing: {missing}", "insufficient_scope", " ".join(rules.required_scopes)
        )
    return TokenAccepted(subject.strip(), ends_ms, frozenset(scopes))


def _times(
    claims: Mapping[str, Any], *, needs_issue_time: bool
) -> tuple[int | None, int | None, int] | TokenRefused:
    """The times at which a token was issued, begins and ends, in milliseconds."""
    found: list[int | None] = []
    for name, is_needed in (("iat", needs_issue_time), ("nbf", False), ("exp", True)):
        value = claims.get(name)
        if value is None and not is_needed:
            found.append(None)
        elif (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or abs(value) > _TIME_MAX_S
            or not math.isfinite(value)
        ):
            return TokenRefused(f"the claim {name} is no time")
        else:
            found.append(int(value * 1000))
    issued_ms, not_before_ms, ends_ms = found
    assert ends_ms is not None
    return issued_ms, not_before_ms, ends_ms


def _audience_fault(claimed: object, wanted: Sequence[str]) -> TokenRefused | None:
    named = [claimed] if isinstance(claimed, str) else claimed
    if named is not None and not isinstance(named, list):
        return TokenRefused("the claim aud is no audience")
    if not wanted:
        # The token is for somebody, and nobody here has said that it is us.
        return TokenRefused("the token has an audience, and none is expected") if named else None
    if not any(one in wanted for one in named or ()):
        return TokenRefused("the token is for another audience")
    return None


def _scopes(claimed: object) -> list[str] | None:
    if claimed is None:
        return []
    if isinstance(claimed, str):
        return claimed.split()
    if isinstance(claimed, list) and all(isinstance(one, str) and one.strip() for one in claimed):
        return [one.strip() for one in claimed]
    return None


def _json(part: str) -> dict[str, Any] | None:
    try:
        # Without padding, in the alphabet for URLs (RFC 7515).
        return _object(
            base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
        )
    except (binascii.Error, ValueError):
        return None


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
