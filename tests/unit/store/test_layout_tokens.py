"""Nodes of delegation tokens: Kafka's bytes, read and written."""

from __future__ import annotations

from dataclasses import replace

from klamm.security.credentials.tokens import DelegationToken
from klamm.security.principals import Principal
from klamm.store.layout.tokens import (
    decode_token,
    decode_token_change,
    encode_token,
    encode_token_change,
    token_path,
)

TOKEN = DelegationToken(
    id="AAECAwQFBgcICQoLDA0ODw",
    owner=Principal("User", "alice"),
    requester=Principal("User", "a,b ~"),
    renewers=(Principal("User", "bob"),),
    issued_ms=1,
    max_ms=3,
    expires_ms=2,
)


def test_node_is_kafkas_bytes() -> None:
    data = encode_token(replace(TOKEN, requester=TOKEN.owner))
    assert data == (
        b'{"version":3,"owner":"User%3Aalice","tokenRequester":"User%3Aalice",'
        b'"renewers":["User%3Abob"],"issueTimestamp":1,"maxTimestamp":3,"expiryTimestamp":2,'
        b'"tokenId":"AAECAwQFBgcICQoLDA0ODw"}'
    )
    assert token_path(TOKEN.id) == "/delegation_token/tokens/AAECAwQFBgcICQoLDA0ODw"


def test_token_comes_back() -> None:
    assert decode_token(encode_token(TOKEN)) == TOKEN
    assert b"User%3Aa%2Cb%20%7E" in encode_token(TOKEN)


def test_old_token_was_asked_for_by_its_owner() -> None:
    data = encode_token(TOKEN).replace(b'"tokenRequester":"User%3Aa%2Cb%20%7E",', b"")
    told = decode_token(data.replace(b'"version":3', b'"version":1'))
    assert told is not None
    assert told.requester == TOKEN.owner


def test_nonsense_is_none() -> None:
    for data in (None, b"{}", encode_token(TOKEN).replace(b"User%3Aalice", b"alice")):
        assert decode_token(data) is None


def test_announcement_is_the_id() -> None:
    assert decode_token_change(encode_token_change("x")) == "x"
    assert decode_token_change(b"../x") is None
    assert decode_token_change(b"") is None
