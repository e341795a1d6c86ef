"""Signing in by OpenID Connect: the authorization code flow with PKCE.

The provider's address comes from the start options alone, so that no request can aim the console
elsewhere. A sign-in has a state, a nonce and a verifier that are made for one browser, used once
and forgotten after some minutes. What comes back is believed when a key of the provider has signed
it, and when it was made for this console, this sign-in and now.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from klamm.console.access.roles import Role
from klamm.console.problems import Problem
from klamm.model.errors import UsageError

PENDING_S: Final = 600.0
_ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)
_TIMEOUT_S: Final = 10.0
_BODY_MAX: Final = 1 << 20
_FRESH_S: Final = 3600.0
_KEYS_AGAIN_S: Final = 30.0
_LEEWAY_S: Final = 30
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcOptions:
    """The provider, this console's name there, and which claims mean which role."""

    issuer: str
    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    role_claim: str = "roles"  # a path, such as realm_access.roles
    user_claim: str = "preferred_username"
    scope: str = "openid profile"
    roles: Mapping[str, Role] = field(default_factory=dict)  # by the claim's values

    def __post_init__(self) -> None:
        try:
            check_address(self.issuer)
        except ValueError as fault:
            raise UsageError(f"--oidc-issuer {fault}") from None
        if not self.client_id:
            raise UsageError("--oidc-issuer needs --oidc-client-id")
        if not self.roles:
            raise UsageError(
                "--oidc-issuer needs --oidc-role VALUE=ROLE: nobody could do anything otherwise"
            )


@dataclass(frozen=True, slots=True)
class Pending:
    """One sign-in that has gone to the provider and not come back."""

    state: str
    nonce: str
    verifier: str
    at: float

    @classmethod
    def new(cls) -> Pending:
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return cls(state, nonce, verifier, time.monotonic())

    def is_answered_by(self, state: str) -> bool:
        """Whether an answer belongs to this sign-in, in time."""
        is_same = hmac.compare_digest(self.state.encode(), state.encode("utf-8", "replace"))
        return is_same and time.monotonic() - self.at < PENDING_S


@dataclass(frozen=True, slots=True)
class Known:
    """Whoever the provider says it is."""

    user: str
    role: Role
    access_token: str = field(repr=False)


def check_address(text: str) -> None:
    """`ValueError` where an address is not one that secrets may be sent to."""
    parts = urllib.parse.urlsplit(text)
    if parts.scheme == "http" and parts.hostname in _LOOPBACK:
        return
    if parts.scheme != "https" or not parts.hostname:
        raise ValueError(f"must be an https address, not {text!r}")


class Provider:
    """The provider, asked over HTTP in threads."""

    def __init__(self, options: OidcOptions, redirect_uri: Callable[[], str]) -> None:
        self.options = options
        self._redirect_uri = redirect_uri
        self._found: Json = {}
        self._found_at = 0.0
        self._keys: list[Json] = []
        self._keys_at = -_FRESH_S

    async def address(self, pending: Pending) -> str:
        """The place to send a browser to."""
        found = await self._discovered()
        challenge = hashlib.sha256(pending.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.options.client_id,
            "redirect_uri": self._redirect_uri(),
            "scope": self.options.scope,
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": base64.urlsafe_b64encode(challenge).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        where = found["authorization_endpoint"]
        return f"{where}{'&' if '?' in where else '?'}{urllib.parse.urlencode(query)}"

    async def known(self, pending: Pending, code: str) -> Known:
        """Whoever has come back with this code."""
        found = await self._discovered()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri(),
            "client_id": self.options.client_id,
            "code_verifier": pending.verifier,
        }
        told = await self._asked(found["token_endpoint"], form)
        token = told.get("id_token")
        if not isinstance(token, str):
            raise Problem(502, "the provider's answer has no id_token")
        claims = await self._claims(token, pending.nonce)
        return Known(self._user(claims), self._role(claims), str(told.get("access_token", "")))

    def _user(self, claims: Mapping[str, Any]) -> str:
        user = claims.get(self.options.user_claim) or claims["sub"]
        if not isinstance(user, str) or not user:
            raise Problem(401, f"the provider's claim {self.options.user_claim} is not a name")
        return user[:200]

    def _role(self, claims: Mapping[str, Any]) -> Role:
        """The highest role that the claim's values stand for."""
        value: Any = claims
        for part in self.options.role_claim.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        values = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        roles = [
            self.options.roles[v] for v in values if isinstance(v, str) and v in self.options.roles
        ]
        if not roles:
            raise Problem(403, "you are known, but have no role here; ask whoever runs the console")
        return max(roles)

    async def _claims(self, token: str, nonce: str) -> Json:
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            key = jwt.PyJWK(await self._key(header.get("kid")))
            claims: Json = jwt.decode(
                token,
                key,
                algorithms=list(_ALGORITHMS),
                audience=self.options.client_id,
                issuer=self._found["issuer"],
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iat", "aud", "iss", "sub"]},
            )
        except jwt.PyJWTError as fault:
            raise Problem(401, f"the provider's token is not to be trusted: {fault}") from None
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise Problem(401, "the provider's token is not to be trusted: it has another nonce")
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if (several or "azp" in claims) and claims.get("azp") != self.options.client_id:
            raise Problem(401, "the provider's token is not to be trusted: it is another's")
        return claims

    async def _key(self, id: str | None) -> Json:
        """The provider's key with this id; keys are asked for again where it is a new one."""
        for is_again in (False, True):
            age = time.monotonic() - self._keys_at
            if age > _FRESH_S or (is_again and age > _KEYS_AGAIN_S):
                told = await self._asked((await self._discovered())["jwks_uri"])
                keys = told.get("keys")
                self._keys = (
                    [k for k in keys if isinstance(k, dict)] if isinstance(keys, list) else []
                )
                self._keys_at = time.monotonic()
            fits = [k for k in self._keys if k.get("use", "sig") == "sig" and k.get("kid") == id]
            if id is None:
                fits = self._keys if len(self._keys) == 1 else []
            if fits:
                return fits[0]
        raise Problem(401, "the provider's token is signed with a key that it does not publish")

    async def _discovered(self) -> Json:
        if self._found and time.monotonic() - self._found_at < _FRESH_S:
            return self._found
        issuer = self.options.issuer
        found = await self._asked(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != issuer:
            raise Problem(502, f"the provider calls itself {found.get('issuer')!r}, not {issuer!r}")
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            try:
                check_address(str(found.get(name)))
            except ValueError as fault:
                raise Problem(502, f"the provider's {name} {fault}") from None
        self._found, self._found_at = found, time.monotonic()
        return found

    async def _asked(self, url: str, form: Mapping[str, str] | None = None) -> Json:
        try:
            told = json.loads(await asyncio.to_thread(self._fetch, url, form))
        except urllib.error.HTTPError as fault:
            with fault:
                why = f"{fault.code} {fault.reason}"
            status = 401 if form is not None and fault.code in (400, 401) else 502
            raise Problem(status, f"the provider refuses: {why}") from None
        except (OSError, ValueError, RecursionError) as fault:
            raise Problem(502, f"the provider does not answer as it should: {fault}") from None
        if not isinstance(told, dict):
            raise Problem(502, "the provider does not answer as it should")
        return told

    def _fetch(self, url: str, form: Mapping[str, str] | None) -> bytes:
        headers = {"accept": "application/json"}
        if form is not None and self.options.client_secret:
            pair = (self.options.client_id, self.options.client_secret)
            plain = ":".join(urllib.parse.quote(each, safe="") for each in pair)
            headers["authorization"] = f"Basic {base64.b64encode(plain.encode()).decode()}"
        data = None if form is None else urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(url, data, headers)
        with _OPENER.open(request, timeout=_TIMEOUT_S) as answer:
            body: bytes = answer.read(_BODY_MAX + 1)
        if len(body) > _BODY_MAX:
            raise ValueError("it is too long")
        return body


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A provider that sends us elsewhere is not followed: the form has a code in it."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirects)
