"""The pytest plugin: real clusters as fixtures.

`klamm_cluster` is a fresh cluster for one test, `klamm_session_cluster` one for the whole run. The
marker `klamm` says what cluster a test wants:

    @pytest.mark.klamm(brokers=1, settings={"auto.create.topics.enable": "false"})
    def test_it(klamm_cluster): ...

`security=True` gives a secured one, with `klamm_cluster.client_config("alice", "kafka-python")` for
its clients.

Marks on a class or module count for what is in it; the nearest one wins, settings are merged. The
session's cluster follows the ini options `klamm_brokers` and `klamm_settings`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from klamm.cluster import Cluster

_MARKER = (
    "klamm(brokers=3, settings={}, racks=(), security=None): "
    "the cluster that klamm_cluster gives this test"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("klamm_brokers", "brokers of klamm_session_cluster", default="3")
    parser.addini(
        "klamm_settings", "name=value settings of klamm_session_cluster", "linelist", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def klamm_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A fresh cluster for one test, as its `klamm` markers say."""
    from klamm.cluster import Cluster

    with Cluster(**_wishes(request.node)) as cluster:  # type: ignore[arg-type]
        yield cluster


@pytest.fixture(scope="session")
def klamm_session_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One cluster for all tests that ask for it; use topics of your own."""
    from klamm.cluster import Cluster

    pairs = (line.partition("=") for line in request.config.getini("klamm_settings"))
    settings = {name.strip(): value.strip() for name, _, value in pairs}
    brokers = int(request.config.getini("klamm_brokers"))
    with Cluster(brokers, settings=settings) as cluster:
        yield cluster


def _wishes(node: pytest.Item) -> dict[str, object]:
    """All markers of a test as one set of arguments, the nearest marker winning."""
    wishes: dict[str, object] = {}
    settings: dict[str, object] = {}
    for marker in reversed(list(node.iter_markers("klamm"))):
        if marker.args:
            raise pytest.UsageError("the marker klamm takes keywords: klamm(brokers=1, ...)")
        given = dict(marker.kwargs)
        more = given.pop("settings", {})
        if not isinstance(more, Mapping):
            raise pytest.UsageError("klamm(settings=...) takes a mapping of names to values")
        settings.update(more)
        wishes.update(given)
    return {**wishes, "settings": settings}
