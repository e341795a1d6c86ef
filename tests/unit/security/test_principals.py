"""Principals: their text, and the list of super users."""

from __future__ import annotations

from klamm.model.errors import Refused
from klamm.security.principals import Principal, parse_principal, parse_super_users


def test_text_is_split_at_the_first_colon() -> None:
    assert parse_principal("User:a:b") == Principal("User", "a:b")
    assert Principal("User", "a:b").text == "User:a:b"


def test_text_without_a_colon_is_refused() -> None:
    for text in ("alice", "", ":alice", "User:"):
        told = parse_principal(text)
        assert isinstance(told, Refused)
        assert told.why.endswith(f"but got {text}")


def test_token_makes_nobody_else() -> None:
    assert Principal("User", "a", by_token=True) == Principal("User", "a")


def test_quotas_know_users_by_name_and_others_by_type() -> None:
    assert Principal("User", "a").quota_user == "a"
    assert Principal("Group", "a").quota_user == "Group:a"


def test_super_users_are_separated_by_semicolons() -> None:
    assert parse_super_users("User:CN=a,O=b; User:admin;;") == {
        Principal("User", "CN=a,O=b"),
        Principal("User", "admin"),
    }
    assert parse_super_users("") == frozenset()
    told = parse_super_users("admin")
    assert isinstance(told, Refused)
    assert "super.users" in told.why
