"""Delegation tokens in the store, and the nodes that announce their changes.

A token's HMAC is not kept: it comes of the id and the brokers' secret.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, unquote

from klamm.model.errors import Refused
from klamm.security.credentials.tokens import DelegationToken
from klamm.security.principals import Principal, parse_principal
from klamm.store.layout.jsontext import dump, load, or_none

TOKENS: Final = "/delegation_token/tokens"
TOKEN_CHANGES: Final = "/delegation_token/token_changes"
TOKEN_CHANGE_PREFIX: Final = "/delegation_token/token_changes/token_change_"
# What a broker makes sure of where tokens are switched on; their parents come with them.
TOKEN_ROOTS: Final = (TOKENS, TOKEN_CHANGES)


def token_path(id: str) -> str:
    """The node of one token."""
    return f"{TOKENS}/{id}"


def encode_token(token: DelegationToken) -> bytes:
    """Version 3, whose requester may be somebody else than the owner."""
    return dump(
        {
            "version": 3,
            "owner": _text(token.owner),
            "tokenRequester": _text(token.requester),
            "renewers": [_text(renewer) for renewer in token.renewers],
            "issueTimestamp": token.issued_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expires_ms,
            "tokenId": token.id,
        }
    )


@or_none
def decode_token(data: bytes | None) -> DelegationToken:
    """Versions 1 to 3; who asked for an old token is its owner."""
    fields = load(data)
    owner = _principal(fields["owner"])
    requester = fields.get("tokenRequester")
    return DelegationToken(
        id=str(fields["tokenId"]),
        owner=owner,
        requester=owner if requester is None else _principal(requester),
        renewers=tuple(_principal(renewer) for renewer in fields["renewers"]),
        issued_ms=int(fields["issueTimestamp"]),
        max_ms=int(fields["maxTimestamp"]),
        expires_ms=int(fields["expiryTimestamp"]),
    )


def encode_token_change(id: str) -> bytes:
    """An announcement: the token's id, as it is."""
    return id.encode()


@or_none
def decode_token_change(data: bytes | None) -> str:
    """The id in an announcement: where its node is gone, the token is."""
    id = (data or b"").decode()
    if not id or "/" in id:
        raise ValueError("not the id of a token")
    return id


def _text(principal: Principal) -> str:
    return quote(principal.text, safe="").replace("~", "%7E")


def _principal(text: Any) -> Principal:
    principal = parse_principal(unquote(str(text), errors="strict"))
    if isinstance(principal, Refused):
        raise ValueError(principal.why)
    return principal
