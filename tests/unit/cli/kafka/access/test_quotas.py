"""What may be set for users, clients and addresses."""

from __future__ import annotations

import pytest

from klamm.cli.kafka.access.quotas import parse_rates


def test_rates_are_numbers() -> None:
    assert parse_rates(["users", "clients"], {"producer_byte_rate": "10"}) == {
        "producer_byte_rate": 10.0
    }
    assert parse_rates(["ips"], {"connection_creation_rate": "2"}) == {
        "connection_creation_rate": 2.0
    }


@pytest.mark.parametrize(
    ("kinds", "name", "text", "said"),
    [
        (["users"], "retention.ms", "1", "Only quota and SCRAM credential configs can be added"),
        (["clients"], "SCRAM-SHA-256", "password=x", "Only quota configs can be added"),
        (["clients"], "retention.ms", "1", "Only quota configs can be added for 'clients'"),
        (["ips"], "producer_byte_rate", "1", "Unexpected config names: producer_byte_rate"),
        (["users"], "producer_byte_rate", "fast", "Cannot parse quota configuration value"),
    ],
)
def test_what_is_no_quota_is_refused(kinds: list[str], name: str, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_rates(kinds, {name: text})
