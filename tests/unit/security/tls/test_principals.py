"""The principal of a certificate."""

from __future__ import annotations

from cryptography import x509
from cryptography.x509.oid import NameOID

from klamm.model.errors import Refused
from klamm.security.principals import ANONYMOUS, Principal
from klamm.security.tls.mapping import MappingRules, parse_rules
from klamm.security.tls.principals import certificate_principal

SUBJECT = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "svc")]).public_bytes()


def who(subject: bytes | None, rules: str) -> Principal | Refused:
    read = parse_rules(rules)
    assert isinstance(read, MappingRules)
    return certificate_principal(subject, read)


def test_name_by_rules() -> None:
    assert who(SUBJECT, "DEFAULT") == Principal("User", "CN=svc")
    assert who(SUBJECT, "RULE:^CN=(.*)$/$1/U") == Principal("User", "SVC")


def test_no_certificate_is_nobody_in_particular() -> None:
    assert who(None, "DEFAULT") == ANONYMOUS


def test_what_cannot_be_named_is_refused() -> None:
    assert isinstance(who(SUBJECT, "RULE:^x$/y/"), Refused)
    assert isinstance(who(SUBJECT, "RULE:^.*$//"), Refused)
    assert isinstance(who(b"?", "DEFAULT"), Refused)
