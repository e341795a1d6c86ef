"""Unmodified clients before a secured cluster: every kind of listener, every mechanism.

One cluster has all of it. Each client creates a topic, writes to it in a transaction and reads it
in a group; with the wrong password, token or certificate it is not let in; what is not allowed to
it is denied.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from interop.security.clients import CLIENTS, DENIED, NOT_LET_IN, VALUE, Client
from interop.security.every_door import CERTIFICATES, LOGINS, Refusals, every_door, listening
from klamm import Cluster
from klamm.secured.wishes import MECHANISMS


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with every_door() as running:
        yield running


@pytest.fixture
def refusals() -> Iterator[Refusals | None]:
    """The words of brokers in this process; nobody here hears those of other processes."""
    if os.environ.get("KLAMM_TEST_PROCESSES"):
        yield None
        return
    with listening() as heard:
        yield heard


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
    cluster: Cluster, client: Client, mechanism: str, refusals: Refusals | None
) -> None:
    config = cluster.client_config(
        "alice", client.name, listener="SASL_SSL", mechanism=mechanism, wrong="password"
    )
    assert client.knock(config) == NOT_LET_IN
    assert refusals is None or refusals.told("could not log in")


def test_an_expired_token_is_not_let_in(
    cluster: Cluster, client: Client, refusals: Refusals | None
) -> None:
    config = cluster.client_config(
        "alice", client.name, listener="SASL_SSL", mechanism="OAUTHBEARER", wrong="expired"
    )
    assert client.knock(config) == NOT_LET_IN
    assert refusals is None or refusals.told("could not log in")


@pytest.mark.parametrize("wrong", ["expired", "stranger", "authority"])
def test_a_wrong_certificate_is_not_let_in(
    cluster: Cluster, client: Client, wrong: str, refusals: Refusals | None
) -> None:
    config = cluster.client_config("alice", client.name, listener="MTLS", wrong=wrong)
    assert client.knock(config) == NOT_LET_IN
    assert refusals is None or refusals.told("SSL handshake failed")


def test_without_a_certificate_nobody_gets_in_by_mtls(
    cluster: Cluster, client: Client, refusals: Refusals | None
) -> None:
    shown = cluster.client_config("alice", client.name, listener="MTLS")
    bare = cluster.client_config("alice", client.name, listener="SSL")
    address = "bootstrap.servers" if "bootstrap.servers" in bare else "bootstrap_servers"
    assert client.knock({**bare, address: shown[address]}) == NOT_LET_IN
    assert refusals is None or refusals.told("SSL handshake failed")
