from __future__ import annotations

import pytest

from klamm.cli.kafka.access.credentials import is_about, parse, without_secrets
from klamm.model.scram import ScramMechanism


def test_credentials_as_kafkas_tool_takes_them() -> None:
    found = parse("SCRAM-SHA-256", "iterations=8192,password=p,w=x")
    assert found == (ScramMechanism.SHA_256, 8192, "p,w=x")
    assert parse("scram-sha-512", "password=p").rounds == 4096
    assert parse("SCRAM-SHA-512", "iterations=-1,password=p").rounds == 4096
    assert "p,w" not in repr(found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("iterations=100,password=geheim", "Iterations 100 is less than the minimum 4096 required"),
        ("iterations=8192", "Invalid credential property SCRAM_SHA_256"),
        ("password=", "Invalid credential property SCRAM_SHA_256"),
        ("geheim", "Invalid credential property SCRAM_SHA_256"),
    ],
)
def test_what_is_no_credential_is_told_without_the_password(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        parse("SCRAM-SHA-256", text)
    assert "geheim" not in str(caught.value)


def test_quotas_and_credentials_do_not_mix() -> None:
    assert not is_about({"producer_byte_rate": "1"}, ["consumer_byte_rate"])
    assert is_about({"SCRAM-SHA-256": "password=p"}, ["scram-sha-512"])
    with pytest.raises(ValueError, match="Cannot alter both quota and SCRAM credential configs"):
        is_about({"SCRAM-SHA-256": "password=p"}, ["producer_byte_rate"])


def test_a_command_is_repeated_without_its_secrets() -> None:
    line = "--alter --add-config SCRAM-SHA-256=[iterations=8192,password=ge,heim]"
    assert without_secrets(line) == (
        "--alter --add-config SCRAM-SHA-256=[iterations=8192,password=[hidden]]"
    )
