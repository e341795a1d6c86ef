"""JAAS texts: what Java's tokenizer makes of them, and the words of each refusal."""

from __future__ import annotations

import pytest

from klamm.model.errors import Refused
from klamm.security.sasl.jaas import Jaas, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def options(text: str) -> dict[str, str]:
    read = parse_jaas(f"{PLAIN} required {text};")
    assert isinstance(read, Jaas), read
    return {key: value.reveal() for key, value in read.options.items()}


def test_module_and_users() -> None:
    read = parse_jaas(
        f'{PLAIN} required username="admin" password="s3cret"\n user_admin="s3cret" user_a=\'b\';'
    )
    assert isinstance(read, Jaas)
    assert (read.module, read.name) == (PLAIN, "PlainLoginModule")
    assert {u: p.reveal() for u, p in read.plain_users().items()} == {"admin": "s3cret", "a": "b"}
    assert read.option("username") == "admin"
    assert "s3cret" not in repr(read)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=b.c-d_e$f", "b.c-d_e$f"),
        ("a=grüße", "grüße"),
        (r'a="q\"q\\n\n\t"', 'q"q\\n\n\t'),
        (r"a='\101\60x'", "A0x"),
        ('a="x=y@z/+!;#"', "x=y@z/+!;#"),
        ('a="123"', "123"),
        ('a = "b" // the rest is a comment', None),
        ("/* ; */ a /* = */ = b", "b"),
        ("a=b / password is not said\n", "b"),
    ],
)
def test_values_are_read_as_java_reads_them(text: str, value: str | None) -> None:
    if value is None:
        assert isinstance(parse_jaas(f"{PLAIN} required {text};"), Refused)
        assert options(text + "\n") == {"a": "b"}
    else:
        assert options(text) == {"a": value}


@pytest.mark.parametrize("flag", ["required", "REQUISITE", "Sufficient", "optional"])
def test_flags_in_any_case(flag: str) -> None:
    assert isinstance(parse_jaas(f"M {flag};"), Jaas)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Login module not specified in JAAS config"),
        ("  // nothing", "Login module not specified in JAAS config"),
        ("M", "Login module control flag not specified in JAAS config"),
        ("M;", "Login module control flag not specified in JAAS config"),
        ("M must;", "Invalid login module control flag 'must' in JAAS config"),
        ("M required a;", "Value not specified for key 'a' in JAAS config"),
        ("M required a=;", "Value not specified for key 'a' in JAAS config"),
        ("M required a=123;", "Value not specified for key 'a' in JAAS config"),
        ("M required a=1abc;", "Value not specified for key 'a' in JAAS config"),
        ("M required a=b#c=d;", "Value not specified for key '#' in JAAS config"),
        ('M required a="b"', "JAAS config entry not terminated by semi-colon"),
        ("M required;N required;", "JAAS config property contains 2 login modules, should be 1"),
        (
            "com.sun.security.auth.module.JndiLoginModule required;",
            "com.sun.security.auth.module.JndiLoginModule is not allowed.",
        ),
        ("x" * (1 << 21), "too long"),
    ],
)
def test_refusals(text: str, words: str) -> None:
    told = parse_jaas(text)
    assert isinstance(told, Refused)
    assert words in told.why


def test_refusal_does_not_tell_a_password() -> None:
    told = parse_jaas('M required password="hunter2" x')
    assert isinstance(told, Refused)
    assert "hunter2" not in told.why
