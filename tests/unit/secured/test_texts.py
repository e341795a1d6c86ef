from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from klamm.client import properties
from klamm.client.security.settings import parse_jaas as parse_jaas_of_clients
from klamm.secured import texts
from klamm.security.sasl.jaas import Jaas, parse_jaas

PASSWORDS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=40)


@given(PASSWORDS)
def test_a_password_survives_every_text_that_carries_it(password: str) -> None:
    line = texts.jaas("PLAIN", {"username": "a.b-c_d", "password": password})
    read = parse_jaas(line)
    assert isinstance(read, Jaas)
    assert read.option("password") == password
    assert parse_jaas_of_clients(line)["password"] == password
    file = texts.properties({"sasl.jaas.config": line, "sasl.password": password})
    assert file.isascii()
    assert properties.parse(file) == {"sasl.jaas.config": line, "sasl.password": password}


@given(st.dictionaries(st.from_regex(r"[a-z.]{1,9}", fullmatch=True), PASSWORDS, max_size=3))
def test_properties_come_back(entries: dict[str, str]) -> None:
    assert properties.parse(texts.properties(entries)) == entries
