"""Java's clients, franz-go and kcat before a secured cluster: every listener, every mechanism.

The same as `interop/security/test_matrix.py` has for the Python clients, on a cluster made alike.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.security.clients import DENIED, NOT_LET_IN, VALUE
from interop.security.every_door import CERTIFICATES, LOGINS, Refusals, every_door, listening
from interop_extra.kafka import VERSIONS
from interop_extra.secured_clients import Foreigner, Kcat, franz, java_client, kcat
from interop_extra.toolbox import run, tool
from klamm import Cluster
from klamm.secured.wishes import MECHANISMS

CLIENTS = {**{f"java-{version}": java_client(version) for version in VERSIONS}}
CLIENTS |= {"franz-go": franz, "kcat": kcat}
_WHY_NOT = "kcat's library asks a token service by itself, or makes unsigned tokens"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with every_door() as running:
        yield running


@pytest.fixture(scope="module", params=CLIENTS)
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Foreigner]:
    made = CLIENTS[request.param](tmp_path_factory.mktemp(request.param))
    yield made
    made.close()


@pytest.fixture
def refusals() -> Iterator[Refusals]:
    with listening() as heard:
        yield heard


@pytest.mark.parametrize(("listener", "mechanism"), [*CERTIFICATES, *LOGINS])
def test_a_client_lives_its_life(
    cluster: Cluster, client: Foreigner, listener: str, mechanism: str | None
) -> None:
    _can(client, mechanism)
    user = "ANONYMOUS" if listener == "SSL" else "alice"
    config = client.config(cluster, listener=listener, mechanism=mechanism)
    name = f"{user}-{client.name}-{listener}-{mechanism}"
    assert client.live(cluster, config, name) == [VALUE]
    assert client.write(config, "secret") == DENIED


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_secret_is_not_let_in(
    cluster: Cluster, client: Foreigner, mechanism: str, refusals: Refusals
) -> None:
    _can(client, mechanism)
    config = client.config(cluster, listener="SASL_SSL", mechanism=mechanism, wrong="password")
    assert client.knock(config) == NOT_LET_IN
    assert refusals.told("could not log in")


def test_an_expired_token_is_not_let_in(
    cluster: Cluster, client: Foreigner, refusals: Refusals
) -> None:
    _can(client, "OAUTHBEARER")
    config = client.config(cluster, listener="SASL_SSL", mechanism="OAUTHBEARER", wrong="expired")
    assert client.knock(config) == NOT_LET_IN
    assert refusals.told("could not log in")


@pytest.mark.parametrize("wrong", ["expired", "stranger", "authority"])
def test_a_wrong_certificate_is_not_let_in(
    cluster: Cluster, client: Foreigner, wrong: str, refusals: Refusals
) -> None:
    config = client.config(cluster, listener="MTLS", wrong=wrong)
    assert client.knock(config) == NOT_LET_IN
    assert refusals.told("SSL handshake failed")


def test_kcat_comes_in_with_an_unsigned_token() -> None:
    """It is the one kind that it can make; brokers take it only where they were told to."""
    login = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": (
            f'{login} unsecuredLoginStringClaim_sub="broker";'
        ),
        "klamm.allow.unsecured.oauth": "true",
    }
    with Cluster(1, settings=settings) as running:
        told = [tool("kcat"), "-b", running.bootstrap_servers]
        told += ["-Xsecurity.protocol=SASL_PLAINTEXT", "-Xsasl.mechanism=OAUTHBEARER"]
        told += ["-Xenable.sasl.oauthbearer.unsecure.jwt=true"]
        assert "1 brokers" in run([*told, "-Xsasl.oauthbearer.config=principal=alice", "-L"])


def _can(client: Foreigner, mechanism: str | None) -> None:
    if isinstance(client, Kcat) and mechanism == "OAUTHBEARER":
        pytest.skip(_WHY_NOT)
