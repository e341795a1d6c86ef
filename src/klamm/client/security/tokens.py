"""Tokens for OAUTHBEARER: where a client gets one each time it signs in.

A source is any callable that returns a token. Two can be named in properties: a file, which
something else keeps fresh, and a token endpoint of OAuth 2, asked for client credentials.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from klamm.client.errors import Distrusted, Unreachable, why_not
from klamm.model.errors import UsageError

TokenSource = Callable[[], str]

_TOKEN_SIZE_MAX: Final = 64 * 1024
_TIMEOUT_S: Final = 10.0
# RFC 6750: what a bearer token is made of. Nothing of it can end a field of the message.
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file with a token in it, read anew each time."""

    path: str

    def __call__(self) -> str:
        try:
            with Path(self.path).open("rb") as file:
                return checked(file.read(_TOKEN_SIZE_MAX + 1), self.path)
        except OSError as fault:
            raise UsageError(f"the token in {self.path} cannot be read: {fault.strerror}") from None


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """An address that gives tokens for the credentials of a client (RFC 6749, section 4.4)."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    timeout_s: float = _TIMEOUT_S
    encodes: bool = True  # the credentials for a URL, as the standard has it

    def __call__(self) -> str:
        # Not at the top: every command would wait for it, and hardly any needs it.
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import HTTPRedirectHandler, Request, build_opener

        class NotSentOn(HTTPRedirectHandler):
            """A redirection would take the secret somewhere else."""

            def redirect_request(self, *_: object) -> None:
                return None

        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        encode = urllib.parse.quote_plus if self.encodes else str
        quoted = ":".join(map(encode, (self.client_id, self.client_secret)))
        request = Request(
            self.url,
            data=urllib.parse.urlencode(form).encode(),
            headers={"Authorization": f"Basic {b64encode(quoted.encode()).decode()}"},
        )
        try:
            with build_opener(NotSentOn).open(request, timeout=self.timeout_s) as answer:
                body = answer.read(_TOKEN_SIZE_MAX + 1)
        except HTTPError as fault:
            fault.close()
            raise Distrusted(f"{self.url} gave no token: {fault.code} {fault.reason}") from None
        except OSError as fault:
            reason = getattr(fault, "reason", fault)
            why = why_not(reason) if isinstance(reason, OSError) else str(reason)
            raise Unreachable(f"no token can be had from {self.url}: {why}") from None
        except HTTPException as fault:
            raise Unreachable(f"{self.url} speaks no HTTP: {fault!r}") from None
        try:
            return checked(str(json.loads(body)["access_token"]).encode(), self.url)
        except (ValueError, KeyError, TypeError):
            raise Distrusted(f"{self.url} answered without an access_token") from None


def checked(token: bytes, origin: str) -> str:
    """A token that has the form of one."""
    if len(token) > _TOKEN_SIZE_MAX or not _TOKEN.fullmatch(token.decode("latin-1").strip()):
        raise UsageError(f"what {origin} holds is no bearer token")
    return token.decode().strip()


def source_of(url: str, client_id: str, client_secret: str, scope: str) -> TokenSource:
    """The source that a URL names: file:///path, or https://host/path with credentials."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file" and parts.path and parts.netloc in ("", "localhost"):
        return TokenFile(urllib.parse.unquote(parts.path))
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(
            f"sasl.oauthbearer.token.endpoint.url: {url!r} is neither file:///path nor https://..."
        )
    if not client_id or not client_secret:
        raise UsageError(
            "sasl.oauthbearer.token.endpoint.url needs sasl.oauthbearer.client.id and "
            "sasl.oauthbearer.client.secret, or clientId and clientSecret in sasl.jaas.config"
        )
    return TokenEndpoint(url, client_id, client_secret, scope)
