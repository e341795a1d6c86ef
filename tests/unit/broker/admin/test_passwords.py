"""Passwords among dynamic settings: hidden and opened, kept and hidden anew."""

from __future__ import annotations

import pytest

from klamm.broker.admin.passwords import Passwords
from klamm.model.settings import BrokerSettings

NAME = "listener.name.x.ssl.keystore.password"
OTHER = "listener.name.x.plain.sasl.jaas.config"


def passwords(secret: str = "", old: str = "", **more: str) -> Passwords:
    given = {"password.encoder.secret": secret, "password.encoder.old.secret": old}
    given |= {f"password.encoder.{name.replace('_', '.')}": text for name, text in more.items()}
    return Passwords(BrokerSettings.parse({name: text for name, text in given.items() if text}))


def test_only_passwords_are_hidden_and_each_opens_again() -> None:
    mine = passwords("secret")
    stored = mine.hidden({NAME: "p", "log.retention.ms": "5"}, {})
    assert stored["log.retention.ms"] == "5"
    assert "keyFactoryAlgorithm:PBKDF2WithHmacSHA512" in stored[NAME]
    assert passwords("secret").opened(stored) == {NAME: "p", "log.retention.ms": "5"}


def test_what_has_not_changed_stays_as_it_was() -> None:
    mine = passwords("secret")
    stored = mine.hidden({NAME: "p", OTHER: "q"}, {})
    again = mine.hidden({NAME: "p", OTHER: "new"}, stored)
    assert again[NAME] == stored[NAME]
    assert again[OTHER] != stored[OTHER]
    assert mine.opened(again)[OTHER] == "new"


def test_what_nobody_can_open_is_left_out_and_told_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stored = passwords("secret").hidden({NAME: "hunter2"}, {})
    for other in (passwords("another"), passwords()):
        assert other.opened(stored | {"log.retention.ms": "5"}) == {"log.retention.ms": "5"}
        assert other.locked(stored) == {NAME}
    assert NAME in caplog.text
    assert "hunter2" not in caplog.text
    assert passwords("secret").opened({NAME: "never hidden"}) == {}


def test_what_nobody_can_open_is_kept_while_others_change() -> None:
    stored = passwords("lost").hidden({NAME: "p"}, {})
    mine = passwords("secret")
    changed = mine.hidden({OTHER: "q"}, stored, mine.locked(stored))
    assert changed[NAME] == stored[NAME]
    assert mine.opened(changed) == {OTHER: "q"}


def test_a_new_secret_hides_anew_what_the_old_one_opens() -> None:
    stored = passwords("old").hidden({NAME: "p"}, {})
    mine = passwords("new", old="old")
    assert mine.opened(stored) == {NAME: "p"}
    assert mine.is_outdated(stored)
    renewed = mine.hidden(mine.opened(stored), stored)
    assert not mine.is_outdated(renewed)
    assert passwords("new").opened(renewed) == {NAME: "p"}


def test_values_of_either_cipher_are_read() -> None:
    gcm = passwords("s", cipher_algorithm="AES/GCM/NoPadding", key_length="256")
    stored = gcm.hidden({NAME: "p"}, {})
    assert "AES/GCM/NoPadding" in stored[NAME]
    assert passwords("s").opened(stored) == {NAME: "p"}
