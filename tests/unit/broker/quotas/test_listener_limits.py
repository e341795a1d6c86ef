"""Limits of one listener, beside those of its broker."""

from __future__ import annotations

from klamm.broker.net.welcome import Welcome
from klamm.broker.quotas.connection_limits import ConnectionLimits
from klamm.broker.quotas.listener_limits import ListenerLimits
from klamm.broker.quotas.quotas import Quotas
from klamm.model.settings import BrokerSettings


def limits(texts: dict[str, str], **protected: bool) -> dict[str, ListenerLimits]:
    settings = BrokerSettings.parse(texts)
    quotas = Quotas(lambda: 0)
    broker = ConnectionLimits(quotas, lambda: settings)
    return {
        name: ListenerLimits(
            broker, name, quotas, lambda: settings, is_protected=protected.get(name, False)
        )
        for name in ("CLIENTS", "INTERNAL")
    }


def test_a_listener_is_full_before_its_broker_is() -> None:
    both = limits({"listener.name.clients.max.connections": "1", "max.connections": "3"})
    assert both["CLIENTS"].joined("a") == Welcome()
    assert (both["CLIENTS"].room, both["INTERNAL"].room) == (0, 2)
    both["CLIENTS"].left("a")
    assert (both["CLIENTS"].room, both["INTERNAL"].room) == (1, 3)


def test_clients_do_not_keep_brokers_out() -> None:
    both = limits({"max.connections": "1"}, INTERNAL=True)
    both["CLIENTS"].joined("a")
    assert both["CLIENTS"].room == 0
    assert both["INTERNAL"].room > 0


def test_a_rate_of_its_own_slows_one_listener() -> None:
    both = limits({"listener.name.clients.max.connection.creation.rate": "1"})
    waits = [both["CLIENTS"].joined("a").after_ms for _ in range(30)]
    assert waits[0] == 0
    assert waits[-1] > 0
    assert all(both["INTERNAL"].joined("a") == Welcome() for _ in range(30))


def test_who_is_turned_away_by_its_address_stays_so() -> None:
    both = limits({"max.connections.per.ip.overrides": "a:1"})
    assert both["CLIENTS"].joined("a").is_served
    assert not both["INTERNAL"].joined("a").is_served
