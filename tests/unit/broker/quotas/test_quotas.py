"""Client quotas: whose limit counts, and how long the quick have to wait."""

from __future__ import annotations

import pytest

from klamm.broker.quotas.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Offer,
    QuotaClient,
    Quotas,
)
from klamm.model.errors import ErrorCode, Refused
from klamm.model.settings import BrokerSettings
from klamm.store.layout import ConfigEntity, ConfigKind

SETTINGS = BrokerSettings.parse({})
ANN_ON_A = QuotaClient("ann", "a")


class HandClock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


def user(name: str | None) -> ConfigEntity:
    return ConfigEntity(ConfigKind.USER, name)


def client(name: str | None, of: ConfigEntity | None = None) -> ConfigEntity:
    return ConfigEntity(ConfigKind.CLIENT, name, of)


ORDER = [
    client("a", user("ann")),
    client(None, user("ann")),
    user("ann"),
    client("a", user(None)),
    client(None, user(None)),
    user(None),
    client("a"),
    client(None),
]


def test_the_most_specific_limit_counts() -> None:
    quotas = Quotas(HandClock())
    for rate, entity in enumerate(ORDER, start=1):
        quotas.set_limits(entity, {PRODUCER_BYTE_RATE: float(rate)})
    found: list[float] = []
    for entity in ORDER:
        limit = quotas.limit(PRODUCER_BYTE_RATE, ANN_ON_A)
        assert limit is not None
        found.append(limit.rate)
        quotas.set_limits(entity, {})
    assert found == [1, 2, 3, 4, 5, 6, 7, 8]
    assert quotas.limit(PRODUCER_BYTE_RATE, ANN_ON_A) is None
    assert not quotas.is_active


def test_a_limit_without_the_key_is_passed_over() -> None:
    quotas = Quotas(HandClock())
    quotas.set_limits(user("ann"), {CONTROLLER_MUTATION_RATE: 1.0})
    quotas.set_limits(client("a"), {PRODUCER_BYTE_RATE: 2.0})
    limit = quotas.limit(PRODUCER_BYTE_RATE, ANN_ON_A)
    assert limit is not None
    assert limit == (2.0, (None, "a"))


def test_a_bucket_is_overdrawn_once_and_then_refuses_until_it_has_refilled() -> None:
    clock = HandClock()
    quotas = Quotas(clock)
    quotas.set_limits(client("a"), {CONTROLLER_MUTATION_RATE: 2.0})

    def strict() -> Refused | None:
        return quotas.mutations(ANN_ON_A, SETTINGS, strict=True).take(30)

    # The burst is 2 a second times 11 windows of a second.
    assert strict() is None
    refused = strict()
    assert refused is not None
    assert refused.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert "4000 ms" in refused.why
    assert quotas.mutations(ANN_ON_A, SETTINGS, strict=True).throttle_ms == 4000
    clock.ms += 3999
    assert strict() is not None
    clock.ms += 1
    assert strict() is None


def test_old_clients_are_counted_but_not_refused() -> None:
    quotas = Quotas(HandClock())
    quotas.set_limits(client("a"), {CONTROLLER_MUTATION_RATE: 1.0})
    permissive = quotas.mutations(ANN_ON_A, SETTINGS, strict=False)
    assert [permissive.take(20), permissive.take(20)] == [None, None]
    assert permissive.throttle_ms == (40 - 11) * 1000


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    clock = HandClock()
    quotas = Quotas(clock)
    quotas.set_limits(client("a"), {CONTROLLER_MUTATION_RATE: 1.0})
    quotas.mutations(ANN_ON_A, SETTINGS, strict=True).take(1)
    clock.ms += 3_600_000
    mutations = quotas.mutations(ANN_ON_A, SETTINGS, strict=True)
    mutations.take(12)
    assert mutations.throttle_ms == 1000


def test_without_a_limit_nothing_is_counted() -> None:
    mutations = Quotas(HandClock()).mutations(ANN_ON_A, SETTINGS, strict=True)
    assert mutations.take(1_000_000) is None
    assert mutations.throttle_ms == 0


def test_a_steady_sender_at_its_limit_never_waits_and_a_faster_one_does() -> None:
    clock = HandClock()
    quotas = Quotas(clock)
    quotas.set_limits(client("a"), {PRODUCER_BYTE_RATE: 1000.0})
    waits = []
    for _ in range(100):
        waits.append(quotas.use(PRODUCER_BYTE_RATE, ANN_ON_A, 100, SETTINGS))
        clock.ms += 100
    assert max(waits) == 0
    sent, started = 0, clock.ms
    for _ in range(200):
        clock.ms += 10 + quotas.use(PRODUCER_BYTE_RATE, ANN_ON_A, 1000, SETTINGS)
        sent += 1000
    # Obeying the waits brings the rate down to the limit.
    assert sent / ((clock.ms - started) / 1000) == pytest.approx(1000, rel=0.15)


def test_clients_of_a_limited_user_share_the_limit() -> None:
    quotas = Quotas(HandClock())
    quotas.set_limits(user("ann"), {PRODUCER_BYTE_RATE: 1000.0})
    assert quotas.use(PRODUCER_BYTE_RATE, QuotaClient("ann", "a"), 9_000, SETTINGS) == 0
    assert quotas.use(PRODUCER_BYTE_RATE, QuotaClient("ann", "b"), 9_000, SETTINGS) > 0
    assert quotas.use(PRODUCER_BYTE_RATE, QuotaClient("bob", "b"), 9_000, SETTINGS) == 0


def test_clients_that_come_and_go_leave_nothing_behind() -> None:
    clock = HandClock()
    quotas = Quotas(clock)
    limits = {PRODUCER_BYTE_RATE: 1000.0, CONTROLLER_MUTATION_RATE: 1.0}
    quotas.set_limits(client(None), limits)
    for n in range(5000):
        passing = QuotaClient("u", f"client-{n}")
        quotas.use(PRODUCER_BYTE_RATE, passing, 1, SETTINGS)
        quotas.mutations(passing, SETTINGS, strict=True).take(1)
        clock.ms += 100
    assert len(quotas._meters) + len(quotas._buckets) <= 1001
    # One that is over its limit is not forgotten with them.
    quotas.mutations(ANN_ON_A, SETTINGS, strict=True).take(5000)
    for n in range(2000):
        quotas.use(PRODUCER_BYTE_RATE, QuotaClient("u", f"other-{n}"), 1, SETTINGS)
    assert quotas.mutations(ANN_ON_A, SETTINGS, strict=True).take(1) is not None


def test_time_is_counted_in_percent_of_the_loop_and_a_wait_is_one_window_at_most() -> None:
    clock = HandClock()
    quotas = Quotas(clock)
    assert not quotas.is_timing
    quotas.set_limits(client("a"), {REQUEST_PERCENTAGE: 10.0})
    assert quotas.is_timing
    # Ten seconds are measured, of which a tenth is one second.
    assert quotas.use_time(ANN_ON_A, 1.0, SETTINGS) == 0
    assert quotas.use_time(ANN_ON_A, 0.05, SETTINGS) == 500
    assert quotas.use_time(ANN_ON_A, 3.0, SETTINGS) == 1000
    assert quotas.waits_ms == {REQUEST_PERCENTAGE: 1500}
    quotas.set_limits(client("a"), {})
    assert not quotas.is_timing


def test_what_does_not_fit_is_held_back_and_not_counted() -> None:
    clock = HandClock()
    quotas = Quotas(clock)
    quotas.set_limits(client("a"), {CONSUMER_BYTE_RATE: 100.0})
    offers = [quotas.offer(CONSUMER_BYTE_RATE, ANN_ON_A, 400, SETTINGS) for _ in range(4)]
    assert offers == [Offer(True, 0), Offer(True, 0), Offer(False, 2000), Offer(False, 2000)]
    clock.ms += 11_000  # the windows that count have passed
    assert quotas.offer(CONSUMER_BYTE_RATE, ANN_ON_A, 400, SETTINGS).is_taken


def test_what_alone_is_more_than_the_limit_is_let_through_when_nothing_else_was() -> None:
    clock = HandClock()
    quotas = Quotas(clock)
    quotas.set_limits(client("a"), {CONSUMER_BYTE_RATE: 1.0})
    assert quotas.most(CONSUMER_BYTE_RATE, ANN_ON_A, SETTINGS) == 10
    assert quotas.offer(CONSUMER_BYTE_RATE, ANN_ON_A, 5_000, SETTINGS) == Offer(True, 11_000)
    assert not quotas.offer(CONSUMER_BYTE_RATE, ANN_ON_A, 5_000, SETTINGS).is_taken
    clock.ms += 11_000
    assert quotas.offer(CONSUMER_BYTE_RATE, ANN_ON_A, 5_000, SETTINGS).is_taken


def test_each_address_has_its_own_connections_to_make() -> None:
    quotas = Quotas(HandClock())
    quotas.set_limits(ConfigEntity(ConfigKind.IP, None), {CONNECTION_CREATION_RATE: 0.2})
    quotas.set_limits(ConfigEntity(ConfigKind.IP, "10.0.0.9"), {CONNECTION_CREATION_RATE: 0.3})

    def let_in(address: str) -> list[bool]:
        return [quotas.offer_connection(address, SETTINGS).is_taken for _ in range(4)]

    assert let_in("10.0.0.1") == [True, True, False, False]
    assert let_in("10.0.0.2") == [True, True, False, False]
    assert let_in("10.0.0.9") == [True, True, True, False]
    assert quotas.counts_connections
