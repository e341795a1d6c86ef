"""The settings with which clients get into a secured cluster, in each client's own words.

One `Login` says who comes in, where and with what. Four clients are known: `java` (properties; also
klamm's own commands), `confluent-kafka` (librdkafka), `kafka-python` and `aiokafka`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from klamm.model.errors import UsageError
from klamm.secured.texts import jaas
from klamm.secured.wishes import ListenerKind

CLIENTS: Final = ("confluent-kafka", "kafka-python", "aiokafka", "java")
_LOGIN_HANDLER: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """All that a client says and trusts at one listener. Paths are of PEM files."""

    servers: str
    listener: ListenerKind
    mechanism: str
    user: str
    password: str = field(default="", repr=False)
    authority: str = ""
    certificate: str = ""  # of the user, with its chain
    key: str = ""
    store: str = ""  # certificate and key in one, as Java reads it
    token: Callable[[], tuple[str, float]] | None = field(default=None, repr=False)
    token_file: str = ""


def settings_for(client: str, login: Login) -> dict[str, Any]:
    """The keywords or properties of a client."""
    if client not in CLIENTS:
        raise UsageError(f"there are no settings for {client!r}, only for {', '.join(CLIENTS)}")
    return _MAKERS[client](login)


def _java(login: Login) -> dict[str, Any]:
    found = {
        "bootstrap.servers": login.servers,
        "security.protocol": login.listener.protocol,
    }
    if login.listener.is_encrypted:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": login.authority}
        if login.store:
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": login.store}
    if login.listener.has_sasl:
        found["sasl.mechanism"] = login.mechanism
        if login.mechanism == "OAUTHBEARER":
            found["sasl.login.callback.handler.class"] = _LOGIN_HANDLER
            found["sasl.oauthbearer.token.endpoint.url"] = f"file://{login.token_file}"
            found["sasl.jaas.config"] = jaas(login.mechanism)
        else:
            who = {"username": login.user, "password": login.password}
            found["sasl.jaas.config"] = jaas(login.mechanism, who)
    return found


def _librdkafka(login: Login) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap.servers": login.servers,
        "security.protocol": login.listener.protocol,
    }
    if login.listener.is_encrypted:
        found["ssl.ca.location"] = login.authority
        if login.certificate:
            found |= {
                "ssl.certificate.location": login.certificate,
                "ssl.key.location": login.key,
            }
    if login.listener.has_sasl:
        found["sasl.mechanism"] = login.mechanism
        if login.mechanism == "OAUTHBEARER":
            token = login.token
            assert token is not None, login
            found["oauth_cb"] = lambda _config: token()
        else:
            found |= {"sasl.username": login.user, "sasl.password": login.password}
    return found


def _kafka_python(login: Login) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap_servers": login.servers.split(","),
        "security_protocol": login.listener.protocol,
    }
    if login.listener.is_encrypted:
        found["ssl_cafile"] = login.authority
        if login.certificate:
            found |= {"ssl_certfile": login.certificate, "ssl_keyfile": login.key}
    if login.listener.has_sasl:
        found["sasl_mechanism"] = login.mechanism
        if login.mechanism == "OAUTHBEARER":
            found["sasl_oauth_token_provider"] = _kafka_python_tokens(login)
        else:
            found |= _plain_words(login)
    return found


def _aiokafka(login: Login) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap_servers": login.servers,
        "security_protocol": login.listener.protocol,
    }
    if login.listener.is_encrypted:
        found["ssl_context"] = ssl_context(login)
    if login.listener.has_sasl:
        found["sasl_mechanism"] = login.mechanism
        if login.mechanism == "OAUTHBEARER":
            found["sasl_oauth_token_provider"] = _aiokafka_tokens(login)
        else:
            found |= _plain_words(login)
    return found


def _plain_words(login: Login) -> dict[str, Any]:
    return {"sasl_plain_username": login.user, "sasl_plain_password": login.password}


def ssl_context(login: Login) -> ssl.SSLContext:
    """TLS for a client that takes it ready-made."""
    context = ssl.create_default_context(cafile=login.authority)
    if login.certificate:
        context.load_cert_chain(login.certificate, login.key)
    return context


def _kafka_python_tokens(login: Login) -> object:
    source = _source(login)
    # The second is where versions before 3 have it.
    return _provider(
        "kafka-python", lambda _self: source(), "kafka.net.sasl.oauth", "kafka.sasl.oauth"
    )


def _aiokafka_tokens(login: Login) -> object:
    source = _source(login)
    return _provider("aiokafka", lambda _self: asyncio.to_thread(source), "aiokafka.abc")


def _source(login: Login) -> Callable[[], str]:
    token = login.token
    assert token is not None, f"{login.user} has no token"
    return lambda: token()[0]


def _provider(client: str, token: Callable[[object], object], *modules: str) -> object:
    """A client's own kind of token provider, which is an abstract class of that client's."""
    for module in modules:
        with contextlib.suppress(ImportError):
            base = import_module(module).AbstractTokenProvider
            made: object = type("Tokens", (base,), {"token": token})()
            return made
    raise UsageError(f"{client} is not installed, so it cannot be given tokens")


_MAKERS: Final[dict[str, Callable[[Login], dict[str, Any]]]] = {
    "java": _java,
    "confluent-kafka": _librdkafka,
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
}
