# ruff: noqa: E501
"""A listener's settings become logins that work."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.model.errors import Refused
from klamm.security.listeners.endpoints import SecurityProtocol
from klamm.security.listeners.overrides import ListenerSettings
from klamm.security.sasl.config import OwnLogin, SaslSources, own_login, sasl_config
from klamm.security.sasl.exchange import Accepted, Challenge, Denied
from klamm.security.sasl.key_refresh import EarlyRefresh
from klamm.security.sasl.server import SaslConfig

PREFIX = "listener.name.a."
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
TEXTS = {
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    f"{PREFIX}plain.sasl.jaas.config": 'PlainLoginModule required username=b password=x user_b="x";',
    f"{PREFIX}scram-sha-512.sasl.jaas.config": "ScramLoginModule required;",
    f"{PREFIX}oauthbearer.sasl.jaas.config": "OAuthBearerLoginModule required "
    'unsecuredValidatorRequiredScope="kafka" unsecuredValidatorAllowableClockSkewMs="5";',
    f"{PREFIX}oauthbearer.connections.max.reauth.ms": "7",
    f"{PREFIX}connections.max.reauth.ms": "5",
    "sasl.server.max.receive.size": "99",
}


class Nobody:
    def user(self, mechanism: Any, name: str) -> None:
        return None

    def token(self, mechanism: Any, token_id: str) -> None:
        return None

    def looks(self, mechanism: Any) -> tuple[()]:
        return ()


def settings(**change: str) -> ListenerSettings:
    texts = TEXTS | {name.replace("_", "."): text for name, text in change.items()}
    return ListenerSettings("A", SecurityProtocol.SASL_SSL, texts)


def made(one: ListenerSettings) -> SaslConfig | Refused:
    return sasl_config(one, SaslSources(scram=Nobody(), decoy_key=b"k", keys=lambda: None))


def test_mechanisms_limits_and_times() -> None:
    config = made(settings())
    assert isinstance(config, SaslConfig)
    assert list(config.mechanisms) == ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"]
    assert (config.reauth("PLAIN"), config.reauth("OAUTHBEARER")) == (5, 7)
    assert config.frame_size_max == 99
    assert isinstance(config.mechanisms["PLAIN"](b"").step(b"\0b\0x", 0), Accepted)
    scram = config.mechanisms["SCRAM-SHA-512"]
    first = scram(bytes(24)).step(b"n,,n=b,r=c", 0)
    assert isinstance(first, Challenge)
    assert first != scram(bytes(range(24))).step(b"n,,n=b,r=c", 0)


def test_unsecured_tokens_by_their_options() -> None:
    config = made(settings())
    assert isinstance(config, SaslConfig)
    exchange = config.mechanisms["OAUTHBEARER"](b"")
    # {"alg":"none"} and {"sub":"a","exp":9}
    token = b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwiZXhwIjo5fQ.\x01\x01"
    told = exchange.step(token, 9004)
    assert isinstance(told, Challenge)
    assert told.token == b'{"status":"insufficient_scope", "scope":"kafka"}'
    late = config.mechanisms["OAUTHBEARER"](b"").step(token, 9005)
    assert isinstance(late, Challenge)
    assert late.token == b'{"status":"invalid_token"}'


def test_signed_tokens_wait_for_keys() -> None:
    one = settings(**{f"{PREFIX}oauthbearer.sasl.server.callback.handler.class": HANDLER})
    config = made(one)
    assert isinstance(config, SaslConfig)
    exchange = config.mechanisms["OAUTHBEARER"](b"")
    assert isinstance(exchange.step(b"n,,\x01auth=Bearer a.b.c\x01\x01", 0), Challenge)
    told = exchange.step(b"\x01", 0)
    assert isinstance(told, Denied)
    assert "not there yet" in told.why


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sasl.enabled.mechanisms", "GSSAPI"),
        ("sasl.enabled.mechanisms", ""),
        ("sasl.server.max.receive.size", "many"),
        (f"{PREFIX}connections.max.reauth.ms", "-1"),
        (f"{PREFIX}plain.sasl.jaas.config", "x"),
        (f"{PREFIX}oauthbearer.sasl.jaas.config", 'M required unsecuredValidatorAllowableClockSkewMs="-1";'),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(name: str, text: str) -> None:
    assert isinstance(made(settings(**{name: text})), Refused)


def test_own_login() -> None:
    told = own_login(settings())
    assert isinstance(told, OwnLogin)
    assert (told.mechanism, told.username, told.password.reveal()) == ("PLAIN", "b", "x")
    assert isinstance(
        own_login(settings(sasl_mechanism_inter_broker_protocol="SCRAM-SHA-512")), Refused
    )


def test_unknown_keys_are_few_and_count_once_a_minute() -> None:
    refresh = EarlyRefresh()
    assert refresh.wants("k0", 0)
    assert not refresh.wants("k0", 59_999)
    assert refresh.wants("k0", 60_000)
    assert not refresh.wants("x" * 1001, 0)
    assert [refresh.wants(f"k{n}", 60_000) for n in range(1, 20)] == [True] * 15 + [False] * 4
    assert refresh.wants("another", 120_000)
