"""Signing in by OpenID Connect, against a small provider that is real: keys, codes, PKCE."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("starlette", reason="the console is not installed: klamm[console]")
pytest.importorskip("httpx2", reason="httpx2 is not installed")
pytest.importorskip("jwt", reason="PyJWT is not installed: klamm[secure]")
pytest.importorskip("cryptography", reason="cryptography is not installed: klamm[secure]")

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from starlette.testclient import TestClient

from consoles import HOST
from klamm.console.access.oidc import OidcOptions
from klamm.console.access.roles import Role
from klamm.console.options import Options
from klamm.console.serving.server import build
from klamm.model.errors import UsageError

CLIENT = "klamm-console"
ROLES = {"ops": Role.OPERATOR, "boss": Role.ADMIN}


class OpenIdProvider:
    """Hands out codes, and tokens for them if the verifier is right."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.codes: dict[str, dict[str, str]] = {}
        self.claims: dict[str, Any] = {"preferred_username": "ann", "roles": ["ops", "other"]}
        self.sign: Callable[[dict[str, Any]], str] = self.signed
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None: ...

            def do_GET(self) -> None:
                self._answer(200, provider.published(self.path))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                told = provider.token(form)
                self._answer(200 if told else 400, told or {"error": "invalid_grant"})

            def _answer(self, status: int, told: Any) -> None:
                body = json.dumps(told).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}/realm"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def published(self, path: str) -> Any:
        if path.endswith("/keys"):
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
            return {"keys": [{**public, "kid": "one", "use": "sig", "alg": "RS256"}]}
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }

    def authorize(self, address: str) -> dict[str, str]:
        """As if somebody had signed in there: the query that the browser comes back with."""
        assert address.startswith(f"{self.issuer}/authorize?")
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        assert asked["redirect_uri"] == f"{HOST}/sign-in/oidc/callback"
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        return {"code": code, "state": asked["state"]}

    def token(self, form: dict[str, str]) -> Any:
        asked = self.codes.pop(form["code"], None)
        if asked is None or form["redirect_uri"] != asked["redirect_uri"]:
            return None
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            return None
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "sub": "1", "iat": now, "exp": now + 60}
        claims |= {"nonce": asked["nonce"]} | self.claims
        return {"id_token": self.sign(claims), "access_token": "opaque", "token_type": "Bearer"}

    def signed(self, claims: dict[str, Any]) -> str:
        return str(jwt.encode(claims, self.key, "RS256", headers={"kid": "one"}))


@pytest.fixture
def provider() -> Iterator[OpenIdProvider]:
    made = OpenIdProvider()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def client(provider: OpenIdProvider) -> Iterator[TestClient]:
    oidc = OidcOptions(issuer=provider.issuer, client_id=CLIENT, roles=ROLES)
    app, _ = build(Options(servers="127.0.0.1:1", oidc=oidc))
    with TestClient(app, base_url=HOST, raise_server_exceptions=False) as made:
        yield made


def back(client: TestClient, provider: OpenIdProvider, **changed: str) -> Any:
    """Goes to the provider and comes back."""
    left = client.get("/sign-in/oidc", follow_redirects=False)
    assert left.status_code == 303, left.text
    said = provider.authorize(left.headers["location"]) | changed
    return client.get("/sign-in/oidc/callback", params=said, follow_redirects=False)


def test_whoever_the_provider_knows_has_the_role_of_their_claim(
    client: TestClient, provider: OpenIdProvider
) -> None:
    assert client.get("/api/me").json()["role"] == "viewer"
    assert "Sign in by your provider" in client.get("/sign-in").text
    before = dict(client.cookies)
    answer = back(client, provider)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    me = client.get("/api/me").json()
    assert (me["user"], me["role"]) == ("ann", "operator")
    assert dict(client.cookies) != before, "signing in makes another session"
    provider.claims["roles"] = "boss"
    back(client, provider)
    assert client.get("/api/me").json()["role"] == "admin"


def test_an_answer_is_taken_once_and_only_by_the_browser_that_asked(
    client: TestClient, provider: OpenIdProvider
) -> None:
    left = client.get("/sign-in/oidc", follow_redirects=False)
    said = provider.authorize(left.headers["location"])
    mine = "; ".join(f"{name}={value}" for name, value in client.cookies.items())

    def come(cookie: str, **changed: str) -> int:
        client.cookies.clear()
        headers = {"cookie": cookie} if cookie else {}
        where = "/sign-in/oidc/callback"
        answer = client.get(where, params=said | changed, headers=headers, follow_redirects=False)
        return int(answer.status_code)

    assert come("") == 403, "another browser, lured to the address"
    assert come(mine, state="x") == 403
    assert come(mine) == 303
    assert come(mine) == 403


def _other(claims: dict[str, Any]) -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return str(jwt.encode(claims, key, "RS256", headers={"kid": "one"}))


FORGED: dict[str, Callable[[OpenIdProvider, dict[str, Any]], str]] = {
    "no signature": lambda _, claims: str(jwt.encode(claims, None, "none", headers={"kid": "one"})),
    "a shared key": lambda p, claims: str(
        jwt.encode(claims, "k" * 32, "HS256", headers={"kid": "one"})
    ),
    "another key": lambda _, claims: _other(claims),
    "another key's id": lambda p, claims: str(
        jwt.encode(claims, p.key, "RS256", headers={"kid": "two"})
    ),
    "for another": lambda p, claims: p.signed({**claims, "aud": "somebody"}),
    "for several": lambda p, claims: p.signed({**claims, "aud": [CLIENT, "b"]}),
    "by another": lambda p, claims: p.signed({**claims, "iss": "https://elsewhere"}),
    "too late": lambda p, claims: p.signed({**claims, "exp": int(time.time()) - 100}),
    "without an end": lambda p, claims: p.signed({k: v for k, v in claims.items() if k != "exp"}),
    "another nonce": lambda p, claims: p.signed({**claims, "nonce": "x"}),
    "no nonce": lambda p, claims: p.signed({k: v for k, v in claims.items() if k != "nonce"}),
    "no token": lambda _, __: "nothing",
}


@pytest.mark.parametrize("how", FORGED)
def test_a_token_that_is_not_the_providers_for_this_sign_in_is_refused(
    client: TestClient, provider: OpenIdProvider, how: str
) -> None:
    provider.sign = lambda claims: FORGED[how](provider, claims)
    answer = back(client, provider)
    assert answer.status_code == 401, answer.text
    assert client.get("/api/me").json()["user"] is None


def test_no_role_and_no_code_are_said(client: TestClient, provider: OpenIdProvider) -> None:
    provider.claims["roles"] = ["other"]
    answer = back(client, provider)
    assert answer.status_code == 403
    assert "no role here" in answer.text
    left = client.get("/sign-in/oidc", follow_redirects=False)
    said = {"state": provider.authorize(left.headers["location"])["state"], "error": "<b>denied"}
    answer = client.get("/sign-in/oidc/callback", params=said)
    assert answer.status_code == 401
    assert "&lt;b&gt;denied" in answer.text


def test_another_provider_in_the_answer_is_refused(
    client: TestClient, provider: OpenIdProvider
) -> None:
    assert back(client, provider, iss="https://elsewhere").status_code == 401


def test_a_provider_that_is_away_is_told(client: TestClient, provider: OpenIdProvider) -> None:
    provider.server.shutdown()
    provider.server.server_close()
    answer = client.get("/sign-in/oidc", follow_redirects=False)
    assert answer.status_code == 502
    assert "the provider does not answer" in answer.text


@pytest.mark.parametrize("issuer", ["http://example.org", "ftp://x", "https://", "x"])
def test_secrets_are_sent_over_tls_alone(issuer: str) -> None:
    with pytest.raises(UsageError, match="must be an https address"):
        OidcOptions(issuer=issuer, client_id=CLIENT, roles=ROLES)


def test_who_can_sign_in_has_to(tmp_path: Path) -> None:
    users = tmp_path / "users"
    assert Options(servers="x").anonymous is Role.ADMIN
    assert Options(servers="x", users=users).anonymous is Role.VIEWER
    proxied = Options(servers="x", public_url="https://console.example")
    assert proxied.anonymous is Role.VIEWER, "behind a proxy everybody comes from loopback"
    assert proxied.is_encrypted
