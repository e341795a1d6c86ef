# ruff: noqa: E501
"""`ssl.principal.mapping.rules`: the examples that Java gave, and what is refused."""

from __future__ import annotations

import pytest

from klamm.model.errors import Refused
from klamm.security.tls.mapping import MappingRules, parse_rules


def mapped(rules: str, name: str) -> str | Refused:
    read = parse_rules(rules)
    assert isinstance(read, MappingRules), read
    return read.apply(name)


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", r"CN=kafka-1,OU=Data,O=ACME\, Inc,C=CZ", r"CN=kafka-1,OU=Data,O=ACME\, Inc,C=CZ"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", "CN=svc,OU=ServiceUsers,O=X", "svc"),
        (
            "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
            "CN=Adam,OU=Admin,O=X,L=P,ST=Q,C=CZ",
            "adam@admin",
        ),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U", "CN=joe,O=x", "JOE"),
        ("RULE:^CN=(.*?),O=.*$/$1-$4/", "CN=a,O=b", "a-$4"),
        ("RULE:.*/x/", "CN=a", "xx"),
        (" , RULE:^CN=(.*)$/$1/ ,, DEFAULT ,", "CN=a", "a"),
        ("", "CN=a", "CN=a"),
        (r"RULE:^CN=(.*)\/(.*)$/$2\/$1/", "CN=a/b", "b/a"),
        ("RULE:^CN=(.)(.*)$/$12/", "CN=ab", "a2"),
        ("RULE:^x$/y/,RULE:^CN=(.*)$/$1/", "CN=a", "a"),
    ],
)  # fmt: skip
def test_rules(rules: str, name: str, principal: str) -> None:
    assert mapped(rules, name) == principal


def test_no_rule_applies() -> None:
    told = mapped("RULE:^x$/y/,RULE:^CN$/z/L", "CN=a")
    assert isinstance(told, Refused)
    assert told.why == "No rules apply to CN=a, rules [RULE:^x$/y/, RULE:^CN$/z/L]"
    # A pattern that fits the beginning only would let everybody be somebody.
    assert isinstance(mapped("RULE:CN=a/root/", "CN=a,O=elsewhere"), Refused)


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "RULE:a/b",
        "RULE:a",
        "RULE:a/b/X",
        "DEFAULT DEFAULT",
        "RULE:(/b/",
        "RULE:a{99999999999}/b/",
        "x",
    ],
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    told = parse_rules(rules)
    assert isinstance(told, Refused)
    assert told.why.startswith("Invalid rule: `")
