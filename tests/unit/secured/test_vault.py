from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from klamm.model.errors import UsageError
from klamm.secured import vault
from klamm.secured.authority import hosts_of, is_signed_by
from klamm.secured.vault import Vault

NOW = datetime.now(UTC)


def opened(
    data: Path,
    users: dict[str, str | None] | None = None,
    hosts: tuple[str, ...] = ("localhost",),
    now: datetime = NOW,
    signs: bool = False,
) -> Vault:
    return vault.open_vault(data, users or {"admin": None}, hosts, now, signs_tokens=signs)


def test_all_of_it_is_there_again(tmp_path: Path) -> None:
    assert not vault.exists(tmp_path)
    first = opened(tmp_path, {"admin": None, "alice": "given"}, signs=True)
    assert vault.exists(tmp_path)
    again = opened(tmp_path, signs=True)
    assert again.authority.certificate == first.authority.certificate
    assert again.drawn == first.drawn
    assert again.passwords == first.passwords == {**first.passwords, "alice": "given"}
    assert first.fresh == {"admin", "alice"}
    assert again.fresh == frozenset()
    assert first.issuer is not None
    assert again.issuer is not None
    assert again.issuer.jwks == first.issuer.jwks
    assert len(set(first.drawn.values())) == len(first.drawn)


def test_nobody_else_may_read_any_of_it(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        kept = opened(tmp_path, signs=True)
    finally:
        os.umask(old)
    assert kept.directory.stat().st_mode & 0o777 == 0o700
    modes = {path.name: path.stat().st_mode & 0o777 for path in kept.directory.iterdir()}
    assert modes.keys() == {
        "ca.pem", "ca.key", "broker.pem", "tokens.key", "jwks.json", "secrets.json",
    }  # fmt: skip
    assert set(modes.values()) == {0o600}
    assert not any(text in repr(kept) for text in (*kept.drawn.values(), *kept.passwords.values()))
    (kept.directory / "secrets.json").chmod(0o644)
    with pytest.raises(UsageError, match=r"others can read .*secrets\.json: run chmod 600"):
        opened(tmp_path)


def test_a_user_who_is_named_gets_the_password_that_is_named(tmp_path: Path) -> None:
    opened(tmp_path, {"admin": None, "alice": None})
    again = opened(tmp_path, {"admin": None, "alice": "another"})
    assert again.passwords["alice"] == "another"
    assert again.fresh == {"alice"}
    kept = opened(tmp_path).forget(["alice"])
    assert kept.passwords.keys() == {"admin"}
    assert opened(tmp_path).passwords == kept.passwords


def test_a_brokers_certificate_is_renewed_in_time_and_for_new_names(tmp_path: Path) -> None:
    kept = opened(tmp_path)
    path = kept.path(vault.BROKER_STORE)
    first = path.read_text()
    opened(tmp_path, now=NOW + timedelta(days=300))
    assert path.read_text() == first
    opened(tmp_path, now=NOW + timedelta(days=340))
    second = path.read_text()
    assert second != first
    opened(tmp_path, hosts=("localhost", "b.example"), now=NOW + timedelta(days=340))
    third = path.read_text()
    assert hosts_of(third) == {"localhost", "b.example"}
    assert all(is_signed_by(pem, kept.authority) for pem in (first, second, third))
    with pytest.raises(UsageError, match=r"authority in .* has expired: remove"):
        opened(tmp_path, now=NOW + timedelta(days=4000))


def test_damage_is_told_and_not_taken_for_a_beginning(tmp_path: Path) -> None:
    kept = opened(tmp_path)
    (kept.directory / "secrets.json").write_text('{"users": {"admin": 7}, "drawn": {}}')
    with pytest.raises(UsageError, match=r"secrets\.json is damaged"):
        opened(tmp_path)
