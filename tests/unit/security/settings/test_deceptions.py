"""Settings that read as protection and would yield less are refused, or warned of."""

from __future__ import annotations

import pytest

from klamm.security.settings.start import check_start
from unit.security.settings.test_start import LOCKED, PLAIN

MAP = "listener.security.protocol.map"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"listener.name.sasl_sl.ssl.client.auth": "required"}, "a listener that is not there"),
        (
            {MAP: "SASL_SSL:SASL_SSL", "listener.name.ssl.ssl.client.auth": "required"},
            "a listener that is not there",
        ),
        ({"listener.name.sasl_ssl.scram-sha-521.connections.max.reauth.ms": "9"}, "is no setting"),
        ({"listener.name.sasl_ssl.max.connectoins": "9"}, "is no setting"),
        ({MAP: "SASL_SSL:PLAINTEXT"}, "Listener SASL_SSL would speak PLAINTEXT"),
        ({MAP: "SASL_SSL:SASL_SSL,sasl_ssl:SASL_PLAINTEXT"}, "would speak SASL_PLAINTEXT"),
        ({MAP: "SASL_SSL:SSL"}, "Listener SASL_SSL would speak SSL"),
        (
            {
                "klamm.allow.plain.without.tls": "false",
                "listeners": "SASL_SSL://:1,SASL_PLAINTEXT://:2",
                "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
            },
            "offers PLAIN without TLS",
        ),
        ({"delegation.token.secret.key": "  "}, "anybody could make tokens"),
    ],
)
def test_what_would_protect_less_than_it_says_is_refused(more: dict[str, str], says: str) -> None:
    assert says in "\n".join(check_start({**LOCKED, **more}).refusals)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"super.users": "User:a,User:b"}, "divided by semicolons"),
        ({"super.users": "User:b;User:*"}, "not everybody"),
        ({"super.users": "User:b;user:c"}, "none of klamm's principals"),
        ({"listener.name.sasl_ssl.ssl.client.auth": "required"}, "every authority"),
        ({"klamm.internal.requests.from": "proof, 0.0.0.0/0"}, "takes everybody for a broker"),
    ],
)
def test_what_may_not_mean_what_it_says_is_warned_of(more: dict[str, str], says: str) -> None:
    told = check_start({**LOCKED, **more})
    assert told.refusals == ()
    assert says in "\n".join(told.warnings)


@pytest.mark.parametrize(
    "more",
    [
        # It may be added while the broker runs.
        {MAP: "SASL_SSL:SASL_SSL,LATER:SSL", "listener.name.later.ssl.client.auth": "required"},
        # Stronger than its name, and names divided as they should be.
        {"super.users": "User:b;User:CN=a,O=b"},
        {"listener.name.sasl_ssl.scram-sha-256.connections.max.reauth.ms": "9000"},
        {"listener.name.sasl_ssl.max.connections": "9"},
    ],
)
def test_what_kafka_takes_for_good_reasons_is_taken(more: dict[str, str]) -> None:
    assert check_start({**LOCKED, **more}).refusals == ()
