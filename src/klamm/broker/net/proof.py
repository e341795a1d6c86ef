"""The proof that a peer is a broker of this cluster.

The brokers of a cluster share a secret, which lies in the store and never travels. Who opens a
connection to another broker shows that it knows the secret, and then has the other show the same:

    opener                                       acceptor
      who I am, a number drawn for this once ->
                                              <- a number drawn for this once
      my proof ->
                                              <- its proof

A proof is an HMAC-SHA256 over both numbers, the cluster's id, both brokers' ids, and which of the
two sides speaks: one seen on another connection, from the other side or in another cluster is worth
nothing. The opener goes first, so a stranger gets nothing but a random number.

It says who is at the other end when the connection begins. It neither hides nor seals what follows:
against somebody who sits on the wire between two brokers, only TLS helps.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from klamm.model.errors import ErrorCode, KlammError, ProtocolError, RequestRefused
from klamm.model.names import BrokerId
from klamm.protocol.private import PrivateKey

KEY_SIZE: Final = 32
# What strangers may send in this matter; a real request has a third of it.
REQUEST_SIZE_MAX: Final = 512

_NONCE_SIZE: Final = 32
_DOMAIN: Final = b"klamm broker proof 1"

Ask = Callable[[int, Mapping[str, Any]], Awaitable[dict[str, Any]]]


class NotProven(KlammError):
    """The other side is no broker of this cluster, or does not take us for one."""


class Side(Enum):
    """The end of a connection that proves something."""

    OPENER = b"opener"
    ACCEPTOR = b"acceptor"


@dataclass(frozen=True, slots=True)
class Meeting:
    """All that a proof is about."""

    cluster_id: str
    opener: BrokerId
    acceptor: BrokerId
    opener_nonce: bytes
    acceptor_nonce: bytes


class ClusterSecret:
    """The secret of a cluster's brokers. It is never shown: not by `repr`, not in a log."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __repr__(self) -> str:
        return "Secret(hidden)"

    def __reduce__(self) -> str:
        raise TypeError("the cluster's secret stays where it is")

    def proof(self, side: Side, meeting: Meeting) -> bytes:
        """The proof of one side."""
        parts = (
            _DOMAIN,
            side.value,
            meeting.cluster_id.encode(),
            str(meeting.opener).encode(),
            str(meeting.acceptor).encode(),
            meeting.opener_nonce,
            meeting.acceptor_nonce,
        )
        # Each with its length in front: no two meetings come to the same bytes.
        text = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(self._key, text, hashlib.sha256)

    def derived(self, purpose: str) -> bytes:
        """Another secret of the same brokers, for one purpose."""
        return hmac.digest(self._key, b"klamm derived 1 " + purpose.encode(), hashlib.sha256)

    def is_proven(self, side: Side, meeting: Meeting, proof: bytes) -> bool:
        """Whether this is the proof of that side; takes as long for a near miss as for noise."""
        return hmac.compare_digest(self.proof(side, meeting), proof)


class Challenge:
    """The acceptor's side, for one connection: a claim, then its proof, once."""

    __slots__ = ("_cluster_id", "_me", "_meeting", "_secret", "_was_refused")

    def __init__(self, secret: ClusterSecret, cluster_id: str, me: BrokerId) -> None:
        self._secret = secret
        self._cluster_id = cluster_id
        self._me = me
        self._meeting: Meeting | None = None
        self._was_refused = False

    def answer(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], BrokerId | None]:
        """The answer, and the broker that has proven itself, if one has."""
        if self._was_refused:
            raise ProtocolError("it has failed to prove that it is a broker")
        if self._meeting is None:
            self._meeting = self._met(request)
            return {"nonce": self._meeting.acceptor_nonce.hex()}, None
        meeting, self._meeting = self._meeting, None
        if not self._secret.is_proven(Side.OPENER, meeting, _bytes(request, "proof")):
            self._was_refused = True
            raise RequestRefused(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"this is broker {self._me} of cluster {self._cluster_id}, and you are not of it",
            )
        mine = self._secret.proof(Side.ACCEPTOR, meeting)
        return {"proof": mine.hex()}, meeting.opener

    def _met(self, request: Mapping[str, Any]) -> Meeting:
        nonce, claimed = _bytes(request, "nonce"), request.get("broker")
        if len(nonce) != _NONCE_SIZE or not isinstance(claimed, int):
            raise ProtocolError("this is not how a broker begins to prove itself")
        return Meeting(
            self._cluster_id, BrokerId(claimed), self._me, nonce, secrets.token_bytes(_NONCE_SIZE)
        )


async def prove(
    ask: Ask, secret: ClusterSecret, *, cluster_id: str, me: BrokerId, to: BrokerId
) -> None:
    """Be taken for a broker by `to`, and make sure that it is one; else `NotProven`."""
    mine = secrets.token_bytes(_NONCE_SIZE)
    told = await _asked(ask, to, {"broker": me, "nonce": mine.hex()})
    meeting = Meeting(cluster_id, me, to, mine, _bytes(told, "nonce"))
    told = await _asked(ask, to, {"proof": secret.proof(Side.OPENER, meeting).hex()})
    if not secret.is_proven(Side.ACCEPTOR, meeting, _bytes(told, "proof")):
        raise NotProven(f"who answers there is not broker {to} of this cluster")


async def _asked(ask: Ask, to: BrokerId, body: Mapping[str, Any]) -> dict[str, Any]:
    told = await ask(PrivateKey.PROVE, body)
    if told.get("error_code"):
        why = told.get("error_message") or told["error_code"]
        raise NotProven(f"broker {to} does not take this one for a broker: {why}")
    return told


def _bytes(body: Mapping[str, Any], name: str) -> bytes:
    try:
        return bytes.fromhex(body[name])
    except (KeyError, TypeError, ValueError):
        raise ProtocolError(f"a proof without its {name}") from None
