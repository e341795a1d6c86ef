"""Addresses as people write them."""

from __future__ import annotations

import pytest

from klamm.client.addresses import parse_bootstrap, text, texts
from klamm.model.errors import UsageError


def test_addresses_are_read_and_written_the_same_way() -> None:
    written = "a:1,[::1]:9092,[fe80::1%eth0]:65535,10.0.0.1:0"
    found = parse_bootstrap(f" {written.replace(',', ' , ')} ,")
    assert found == (("a", 1), ("::1", 9092), ("fe80::1%eth0", 65535), ("10.0.0.1", 0))
    assert texts(found) == written
    assert text(("::1", 9092)) == "[::1]:9092"


@pytest.mark.parametrize(
    "bad",
    [
        "host",
        "host:",
        ":1",
        "host:99999",
        "host:x",
        "host:-1",
        "ho st:1",
        "[::1",
        "[]:1",
        "h:\u0661",
    ],
)
def test_what_is_no_address_is_named(bad: str) -> None:
    with pytest.raises(UsageError, match="is not host:port"):
        parse_bootstrap(f"good:1,{bad}")


def test_an_ipv6_address_without_brackets_is_explained() -> None:
    with pytest.raises(UsageError, match=r"in brackets, like \[::1\]:9092"):
        parse_bootstrap("::1:9092")
    with pytest.raises(UsageError, match="no bootstrap server is named"):
        parse_bootstrap(" , ")
