"""The proof that a peer is a broker of this cluster."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from klamm.broker.net.proof import Challenge, ClusterSecret, Meeting, NotProven, Side, prove
from klamm.model.errors import ErrorCode, ProtocolError, RequestRefused
from klamm.model.names import BrokerId

ME, YOU = BrokerId(1), BrokerId(2)
SECRET, OTHER = ClusterSecret(b"s" * 32), ClusterSecret(b"o" * 32)


class Acceptor:
    """A broker at the other end, and all that was said to it."""

    def __init__(
        self, secret: ClusterSecret = SECRET, cluster: str = "c", id: BrokerId = YOU
    ) -> None:
        self.challenge = Challenge(secret, cluster, id)
        self.proven: list[BrokerId] = []
        self.heard: list[Mapping[str, Any]] = []

    async def ask(self, key: int, body: Mapping[str, Any]) -> dict[str, Any]:
        self.heard.append(body)
        try:
            answer, proven = self.challenge.answer(body)
        except RequestRefused as refusal:
            return {"error_code": int(refusal.code), "error_message": refusal.message}
        if proven is not None:
            self.proven.append(proven)
        return {"error_code": 0, **answer}


def proving(acceptor: Acceptor, secret: ClusterSecret = SECRET, cluster: str = "c") -> None:
    asyncio.run(prove(acceptor.ask, secret, cluster_id=cluster, me=ME, to=YOU))


def test_two_brokers_of_a_cluster_believe_each_other() -> None:
    acceptor = Acceptor()
    proving(acceptor)
    assert acceptor.proven == [ME]
    said = str(acceptor.heard)
    assert "73" * 32 not in said, "the secret does not travel"


@pytest.mark.parametrize(
    "acceptor",
    [Acceptor(OTHER), Acceptor(cluster="another"), Acceptor(id=BrokerId(3))],
    ids=["another secret", "another cluster", "another broker"],
)
def test_who_is_not_of_the_cluster_is_not_believed(acceptor: Acceptor) -> None:
    with pytest.raises(NotProven, match="does not take this one for a broker"):
        proving(acceptor)
    assert acceptor.proven == []


def test_an_impostor_is_noticed_by_who_opened() -> None:
    class Impostor(Acceptor):
        """It takes everybody for a broker, to be poured data into."""

        async def ask(self, key: int, body: Mapping[str, Any]) -> dict[str, Any]:
            return {"error_code": 0, "nonce": "00" * 32, "proof": "00" * 32}

    with pytest.raises(NotProven, match="not broker 2 of this cluster"):
        proving(Impostor())


def test_an_impostor_that_sends_back_what_it_got_is_noticed() -> None:
    class Mirror(Acceptor):
        async def ask(self, key: int, body: Mapping[str, Any]) -> dict[str, Any]:
            return {"error_code": 0, **body}

    with pytest.raises(NotProven):
        proving(Mirror())


def test_a_proof_that_was_overheard_is_worth_nothing() -> None:
    acceptor = Acceptor()
    proving(acceptor)
    again = Acceptor()
    claim, proof = acceptor.heard
    asyncio.run(again.ask(0, claim))
    answer = asyncio.run(again.ask(0, proof))
    assert answer["error_code"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert again.proven == []


def test_who_has_failed_once_gets_no_second_try() -> None:
    acceptor = Acceptor()
    asyncio.run(acceptor.ask(0, {"broker": 1, "nonce": "00" * 32}))
    asyncio.run(acceptor.ask(0, {"proof": "00" * 32}))
    with pytest.raises(ProtocolError, match="failed to prove"):
        acceptor.challenge.answer({"broker": 1, "nonce": "00" * 32})


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"broker": 1},
        {"nonce": "00" * 32},
        {"broker": "1", "nonce": "00" * 32},
        {"broker": 1, "nonce": "00" * 31},
        {"broker": 1, "nonce": "zz" * 32},
        {"broker": 1, "nonce": None},
        {"proof": "00" * 32},
    ],
)
def test_a_beginning_that_is_none_closes_the_connection(body: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        Challenge(SECRET, "c", YOU).answer(body)


def test_each_field_and_side_changes_the_proof() -> None:
    meetings = [
        Meeting("c", ME, YOU, b"a", b"b"),
        Meeting("d", ME, YOU, b"a", b"b"),
        Meeting("c", YOU, YOU, b"a", b"b"),
        Meeting("c", ME, ME, b"a", b"b"),
        Meeting("c", ME, YOU, b"ab", b""),
        Meeting("c", ME, YOU, b"", b"ab"),
        Meeting("c1", BrokerId(2), YOU, b"a", b"b"),
        Meeting("c", BrokerId(12), YOU, b"a", b"b"),
    ]
    proofs = {SECRET.proof(side, meeting) for side in Side for meeting in meetings}
    assert len(proofs) == 2 * len(meetings)


def test_the_secret_is_not_shown() -> None:
    assert "s" * 4 not in repr(SECRET)
    assert "73" * 4 not in f"{SECRET!r} {SECRET}"
    with pytest.raises(TypeError):
        pickle.dumps(SECRET)
