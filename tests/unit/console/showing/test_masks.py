"""Masks: what is put away is in no form of a record, and no filter can look for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="the console is not installed: klamm[console]")

from klamm.client.aio.consumer import Consumed
from klamm.console.showing.masks import HIDDEN, masks
from klamm.console.views.records import _items, _look

SECRET = "4111-1111"


def record(value: Any, **more: Any) -> Consumed:
    data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    return Consumed("orders", 0, 7, 0, more.get("key"), data, more.get("headers", ()))


def shown(mask: str, one: Consumed, form: str = "text", **ask: str) -> str:
    """All that a page is given of a record; empty where it does not fit the filter."""
    cover = masks([mask]).of("orders")
    wanted = {"key": "", "q": "", "path": "", **ask}
    seen = _look(wanted, cover)(one)
    return json.dumps(_items([(one, seen)], 65_536, form, None, cover)) if seen else ""


@pytest.mark.parametrize(
    ("mask", "value"),
    [
        ("orders=$.card", {"card": SECRET}),
        ("orders=$.card", {"CARD": {"number": [SECRET]}}),
        ("ord*=$.card.number", {"card": {"number": SECRET, "kind": "x"}}),
        ("orders=$.card.number", [{"card": {"number": SECRET}}]),
        ("orders=$.cards[1]", {"cards": ["a", SECRET]}),
        ("orders=$.cards[*].number", {"cards": [{"number": SECRET}]}),
        ("orders=$.*.number", {"any": {"number": SECRET}}),
        ("orders=value", {"card": SECRET}),
        ("orders=$.card", SECRET.encode()),
        ("orders=$.card", b"[" * 100_000 + SECRET.encode()),
        ("orders=$.card", b'{"card": 1, "card": "4111-1111"}'),
    ],
)
@pytest.mark.parametrize("form", ["text", "json", "hex", "avro"])
def test_what_is_masked_is_not_shown_and_not_found(mask: str, value: Any, form: str) -> None:
    one = record(value)
    assert SECRET not in shown(mask, one, form)
    assert SECRET.encode().hex(" ") not in shown(mask, one, form)
    assert shown(mask, one, q=SECRET) == ""
    assert shown(mask, one, path=f"$.card == '{SECRET}'") == ""


def test_keys_and_headers_are_masked_and_the_rest_is_not() -> None:
    one = record({"id": 1}, key=SECRET.encode(), headers=(("user", SECRET.encode()), ("no", None)))
    assert SECRET not in shown("orders=key", one._replace(headers=()))
    assert SECRET not in shown("orders=headers", one._replace(key=None))
    assert shown("orders=key", one, key=SECRET) == ""
    told = json.loads(shown("orders=$.card", one))[0]
    assert (told["key"], told["value"]) == (SECRET, '{"id":1}')
    assert told["again"] is None
    assert masks(["orders=key"]).of("payments") is None
    assert masks(["*=key"]).of("payments") is not None


def test_an_avro_value_is_masked_after_it_is_decoded() -> None:
    cover = masks(["orders=$.card"]).of("orders")
    one = record(b"\0\0\0\0\1" + SECRET.encode())
    seen = cover.over(one) if cover else one

    def told(decode: Any) -> dict[str, Any]:
        return _items([(one, seen)], 65_536, "avro", decode, cover)[0]

    assert json.loads(told(lambda _: {"card": SECRET, "id": 1})["value"]) == {
        "card": HIDDEN,
        "id": 1,
    }

    def broken(_: bytes) -> Any:
        raise ValueError(f"cannot read {SECRET}")

    assert SECRET not in json.dumps(told(broken))


@pytest.mark.parametrize("text", ["orders", "=key", "orders=card", "orders=$", "orders=$.a b", ""])
def test_a_mask_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"takes TOPIC=PART"):
        masks([text])


@given(
    st.recursive(
        st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["a", "b", "A"]), inner),
    )
)
def test_no_value_breaks_a_mask(value: Any) -> None:
    cover = masks(["*=$.a", "*=$.b[0]", "*=$[*].a"]).of("x")
    assert cover is not None
    told = cover.of(value)
    if isinstance(value, dict):
        assert all(told[name] == HIDDEN for name in value if name in "aA")
