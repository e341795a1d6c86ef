# ruff: noqa: E501
"""SCRAM credentials: Kafka's text, and what Describe and Alter answer."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from klamm.model import scram
from klamm.model.scram import ScramMechanism
from klamm.security.credentials.scram import (
    Deletion,
    Described,
    Upsertion,
    alter,
    credentials_of,
    decode_credential,
    describe,
    encode_credential,
    from_password,
    from_salted,
)

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
ONE = from_password(SHA_256, "pencil", b"salt", 8192)
KNOWN = {"zoe": {SHA_512: ONE, SHA_256: ONE}, "al": {SHA_256: ONE}, "gone": {}}


def test_keys_are_those_of_the_rfc() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    one = from_password(SHA_256, "pencil", salt, 4096)
    assert encode_credential(one) == (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
    )


def test_text_comes_back() -> None:
    assert decode_credential(encode_credential(ONE)) == ONE
    shuffled = ",".join(reversed(encode_credential(ONE).split(",")))
    assert decode_credential(shuffled) == ONE


@pytest.mark.parametrize(
    "text",
    ["", "salt=", "salt=AA==,stored_key=AA==,server_key=AA==", "salt=!,stored_key=AA==,server_key=AA==,iterations=4096",
     "salt=AA==,stored_key=AA==,server_key=AA==,iterations=x",
     "salt=AA==,stored_key=AA==,server_key=AA==,iterations=4096,more=1", "x" * 10_000],
)  # fmt: skip
def test_nonsense_is_no_credential(text: str) -> None:
    assert decode_credential(text) is None


def test_quotas_lie_in_the_same_node() -> None:
    config = {
        "SCRAM-SHA-256": encode_credential(ONE),
        "consumer_byte_rate": "5",
        "SCRAM-SHA-512": "?",
    }
    assert credentials_of(config) == {SHA_256: ONE}


def test_keys_do_not_show() -> None:
    assert "stored_key" not in repr(ONE)


def test_describe_all_by_name() -> None:
    every = [Described("al", ((1, 8192),)), Described("zoe", ((1, 8192), (2, 8192)))]
    assert describe(KNOWN, None) == every
    assert describe(KNOWN, []) == every


@pytest.mark.parametrize(
    ("users", "code", "words"),
    [
        (["nobody"], 91, "Attempt to describe a user credential that does not exist: nobody"),
        (["gone"], 91, "Attempt to describe a user credential that does not exist: gone"),
        ([""], 91, "Username must not be empty"),
        (
            ["al", "al"],
            92,
            "Cannot describe SCRAM credentials for the same user twice in a single request: al",
        ),
    ],
)
def test_describe_refusals(users: list[str], code: int, words: str) -> None:
    (told,) = describe(KNOWN, users)
    assert told.refused is not None
    assert (told.refused.code, told.refused.why) == (code, words)


def up(user: str = "al", mechanism: int = 1, rounds: int = 4096) -> Upsertion:
    return Upsertion(user, mechanism, rounds, b"salt", b"salted")


@pytest.mark.parametrize(
    ("deletions", "upsertions", "code"),
    [
        ([], [up(user="")], 93),
        ([], [up(mechanism=7)], 33),
        ([Deletion("al", 0)], [], 33),
        ([], [up(rounds=4095)], 93),
        ([], [up(rounds=16_385)], 93),
        ([], [replace(up(), salted=b"")], 93),
        ([], [up(), up()], 92),
        ([Deletion("al", 1)], [up()], 92),
        ([Deletion("al", 2)], [], 91),
        ([Deletion("nobody", 1)], [], 91),
        # Of several faults the last is told, upsertions after deletions; twice before empty.
        ([], [up(rounds=1), up(mechanism=7)], 33),
        ([Deletion("al", 7)], [up(rounds=1)], 93),
        ([Deletion("al", 1)], [replace(up(), salted=b"")], 92),
        ([Deletion("al", 2)], [replace(up(), salted=b"")], 91),
    ],
)
def test_alter_refusals(deletions: list[Deletion], upsertions: list[Upsertion], code: int) -> None:
    (told,) = alter(KNOWN, deletions, upsertions)
    assert told.refused is not None
    assert told.refused.code == code
    assert not told.sets


def test_alter_is_all_or_nothing_for_each_user() -> None:
    good, bad = alter(KNOWN, [Deletion("zoe", 1)], [up("zoe", 2, 16_384), up("al"), up("al")])
    assert good.refused is None
    assert good.removes == ("SCRAM-SHA-256",)
    made = decode_credential(good.sets["SCRAM-SHA-512"])
    assert made == from_salted(SHA_512, b"salt", 16_384, b"salted")
    assert bad.refused is not None
    assert bad.refused.code == 92


def test_proof_is_made_with_the_password_only() -> None:
    salted = scram.salted_password(SHA_256, "pencil", b"salt", 8192)
    shown = scram.xor(
        scram.proof(SHA_256, salted, b"m"), scram.signature(SHA_256, ONE.stored_key, b"m")
    )
    assert scram.stored_key(SHA_256, shown) == ONE.stored_key
