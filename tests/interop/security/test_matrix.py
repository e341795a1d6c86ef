"""Unmodified clients before a secured cluster: every kind of listener, every mechanism.

One cluster has all of it. Each client creates a topic, writes to it in a transaction and reads it
in a group; with the wrong password, token or certificate it is not let in; what is not allowed to
it is denied.
"""

from __future__ import annotations

import contextlib
import logging
import queue
from collections.abc import Iterator

import pytest

from interop.security.clients import CLIENTS, DENIED, NOT_LET_IN, VALUE, Client
from klamm import Cluster, Security
from klamm.secured.wishes import MECHANISMS, ListenerKind

CERTIFICATES = (("SSL", None), ("MTLS", None))
LOGINS = tuple(
    (listener, mechanism) for listener in ("SASL_PLAINTEXT", "SASL_SSL") for mechanism in MECHANISMS
)
SETTINGS = {
    # Failures are answered later and later, and here all come from one address.
    "connection.failed.authentication.delay.ms": "5",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    wishes = Security(users=["alice"], listeners=tuple(ListenerKind), mechanisms=MECHANISMS)
    with Cluster(2, security=wishes, settings=SETTINGS) as running:
        for user in ("alice", "ANONYMOUS"):
            running.allow(
                user, "all", f"topic:{user}", f"group:{user}", f"transactional-id:{user}",
                prefixed=True,
            )  # fmt: skip
        running.create_topic("secret", 1, 1)
        yield running


class Refusals(logging.Handler):
    """What brokers say about those who were not let in; they may say it after the client knows."""

    def __init__(self) -> None:
        super().__init__()
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        self._said.put(record.getMessage())

    def told(self, words: str) -> bool:
        """Whether brokers say this; others may still be trying, from tests before."""
        with contextlib.suppress(queue.Empty):
            while words not in self._said.get(timeout=10):
                pass
            return True
        return False


@pytest.fixture
def refusals() -> Iterator[Refusals]:
    logger, handler = logging.getLogger("klamm.broker.identity"), Refusals()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture(params=CLIENTS, ids=lambda make: make.name)
def client(request: pytest.FixtureRequest) -> Client:
    made: Client = request.param()
    return made


@pytest.mark.parametrize(("listener", "mechanism"), [*CERTIFICATES, *LOGINS])
def test_a_client_lives_its_life(
    cluster: Cluster, client: Client, listener: str, mechanism: str | None
) -> None:
    user = "ANONYMOUS" if listener == "SSL" else "alice"
    config = cluster.client_config("alice", client.name, listener=listener, mechanism=mechanism)
    name = f"{user}-{client.name}-{listener}-{mechanism}"
    assert client.live(config, name) == [VALUE]
    assert client.write(config, "secret") == DENIED


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_secret_is_not_let_in(
    cluster: Cluster, client: Client, mechanism: str, refusals: Refusals
) -> None:
    config = cluster.client_config(
        "alice", client.name, listener="SASL_SSL", mechanism=mechanism, wrong="password"
    )
    assert client.knock(config) == NOT_LET_IN
    assert refusals.told("could not log in")


def test_an_expired_token_is_not_let_in(
    cluster: Cluster, client: Client, refusals: Refusals
) -> None:
    config = cluster.client_config(
        "alice", client.name, listener="SASL_SSL", mechanism="OAUTHBEARER", wrong="expired"
    )
    assert client.knock(config) == NOT_LET_IN
    assert refusals.told("could not log in")


@pytest.mark.parametrize("wrong", ["expired", "stranger", "authority"])
def test_a_wrong_certificate_is_not_let_in(
    cluster: Cluster, client: Client, wrong: str, refusals: Refusals
) -> None:
    config = cluster.client_config("alice", client.name, listener="MTLS", wrong=wrong)
    assert client.knock(config) == NOT_LET_IN
    assert refusals.told("SSL handshake failed")


def test_without_a_certificate_nobody_gets_in_by_mtls(
    cluster: Cluster, client: Client, refusals: Refusals
) -> None:
    shown = cluster.client_config("alice", client.name, listener="MTLS")
    bare = cluster.client_config("alice", client.name, listener="SSL")
    address = "bootstrap.servers" if "bootstrap.servers" in bare else "bootstrap_servers"
    assert client.knock({**bare, address: shown[address]}) == NOT_LET_IN
    assert refusals.told("SSL handshake failed")
