"""How many connections there may be, and how fast they may come."""

from __future__ import annotations

from klamm.broker.net.welcome import SERVED, Welcome
from klamm.broker.quotas.connection_limits import ConnectionLimits
from klamm.broker.quotas.quotas import CONNECTION_CREATION_RATE, Quotas
from klamm.model.settings import BrokerSettings, broker_fault
from klamm.store.layout import ConfigEntity, ConfigKind

REFUSED = Welcome(is_served=False)


class Host:
    """Settings that change, and a clock that stands still."""

    def __init__(self, **texts: str) -> None:
        self.quotas = Quotas(lambda: 1_000_000)
        self.limits = ConnectionLimits(self.quotas, lambda: self.settings)
        self.set(**texts)

    def set(self, **texts: str) -> None:
        named = {name.replace("_", "."): text for name, text in texts.items()}
        self.settings = BrokerSettings.parse(named)


def test_an_address_has_its_share_and_may_have_one_of_its_own() -> None:
    host = Host(max_connections_per_ip="2", max_connections_per_ip_overrides="10.0.0.9:1,::1:0")
    assert [host.limits.joined("10.0.0.1") for _ in range(3)] == [SERVED, SERVED, REFUSED]
    assert [host.limits.joined("10.0.0.9") for _ in range(2)] == [SERVED, REFUSED]
    assert host.limits.joined("::1") == REFUSED
    for _ in range(2):  # the one that was refused leaves too
        host.limits.left("10.0.0.1")
    assert host.limits.joined("10.0.0.1") == SERVED


def test_the_broker_has_room_for_as_many_as_it_may_and_a_change_counts_at_once() -> None:
    host = Host(max_connections="1")
    assert host.limits.room == 1
    host.limits.joined("10.0.0.1")
    assert host.limits.room == 0
    host.set(max_connections="9")
    assert host.limits.room == 8
    host.limits.joined("10.0.0.1")
    host.set(max_connections="1")
    assert host.limits.room == -1
    host.limits.left("10.0.0.1")
    assert host.limits.room == 0


def test_who_comes_too_fast_for_the_broker_waits_and_is_served() -> None:
    host = Host(max_connection_creation_rate="1", quota_window_num="3")
    welcomes = [host.limits.joined("10.0.0.1") for _ in range(4)]
    assert welcomes == [SERVED, SERVED, Welcome(after_ms=1000), Welcome(after_ms=2000)]


def test_who_comes_too_fast_for_its_address_waits_and_is_closed() -> None:
    host = Host(quota_window_num="2")
    address = ConfigEntity(ConfigKind.IP, "10.0.0.1")
    host.quotas.set_limits(address, {CONNECTION_CREATION_RATE: 1.0})
    assert host.limits.joined("10.0.0.1") == SERVED
    assert host.limits.joined("10.0.0.1") == Welcome(is_served=False, after_ms=1000)
    assert host.limits.joined("10.0.0.2") == SERVED


def test_limits_of_addresses_have_a_form() -> None:
    assert broker_fault({"max.connections.per.ip.overrides": "a:1,::1:2"}) is None
    for text in ("a", "a:", ":1", "a:many"):
        assert broker_fault({"max.connections.per.ip.overrides": text}) is not None, text
