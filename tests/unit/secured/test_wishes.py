from __future__ import annotations

import pytest

from klamm.model.errors import UsageError
from klamm.secured.wishes import ListenerKind, Security, security_of


def test_the_ways_to_say_it() -> None:
    assert security_of(None) is None
    assert security_of(False) is None
    assert security_of(True) == Security()
    assert security_of("MTLS") == Security(listeners=("MTLS",))
    told = Security(users=["alice", "bob:s:ecret"])
    assert told.passwords == {"admin": None, "alice": None, "bob": "s:ecret"}
    assert security_of(told) is told
    assert security_of({"users": {"alice": "pw"}}) == Security(users={"alice": "pw"})
    assert Security(users="alice").passwords == {"admin": None, "alice": None}
    assert Security().kinds == (ListenerKind.SASL_SSL,)


def test_passwords_do_not_show() -> None:
    assert "geheim" not in repr(Security(users={"alice": "geheim"}))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (7, "security= takes True"),
        ({"user": "alice"}, "security= has no user"),
        ({"users": ["../etc/passwd"]}, "letters, digits"),
        ({"users": [".hidden"]}, "letters, digits"),
        ({"users": ["a" * 65]}, "up to 64"),
        ({"users": ["klamm-broker"]}, "something else"),
        ({"users": ["ca"]}, "something else"),
        ({"users": ["alice.librdkafka"]}, "something else"),
        ({"users": {"alice": ""}}, "is empty"),
        ({"users": {"alice": "a\nb"}}, "printable"),
        ({"users": {"alice": " a"}}, "printable"),
        ({"users": {"alice": "x" * 257}}, "at most 256"),
        ({"listeners": "PLAINTEXT"}, "listeners are some of"),
        ({"listeners": ()}, "listeners are some of"),
        ({"listeners": ("SSL", "SSL")}, "each once"),
        ({"mechanisms": ("GSSAPI",)}, "mechanisms are some of"),
        ({"mechanisms": ("PLAIN",)}, "add SCRAM-SHA-512"),
    ],
)
def test_what_makes_no_sense_is_refused(given: object, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        security_of(given)
    assert "a\nb" not in str(caught.value)
