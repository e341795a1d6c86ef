"""Client quotas: who may do how much, and how long to slow down who did more.

A quota belongs to a user, a client id or both, or to the default of these; the most specific one
that names a limit counts. What is measured is shared by all whom the limit describes in the same
way: a limit of a user counts all of that user's clients together.

Topic changes are counted with a token bucket that may be overdrawn (KIP-599): one large request is
let through when anything is left, and the next ones wait. Bytes are counted over a few windows, and
who is over the limit is told to wait just long enough to be back at it (KIP-219). So is time:
`request_percentage` is how much of the loop, the one thread that serves everybody, a client may
have. Brokers among themselves are never limited.

New connections are counted by address (KIP-612). One too many is accepted, left alone for as long
as the next must wait, and closed: a client that was refused at once would be back at once.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from klamm.model.errors import ErrorCode, Refused
from klamm.model.settings import BrokerSettings
from klamm.protocol.apis import ApiKey
from klamm.store.layout import ConfigEntity, ConfigKind

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

_USER: Final = "User:"
NO_RATE: Final = 2**31 - 1
# What brokers ask of each other.
EXEMPT: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.WRITE_TXN_MARKERS,
    }
)
_KEPT_MAX: Final = 1000  # what was measured of so many, before the idle ones are forgotten


class QuotaClient(NamedTuple):
    """The client: the user's name, with its type where that is not User, and the client's id."""

    user: str
    client_id: str

    @classmethod
    def of(cls, principal: str, client_id: str | None) -> QuotaClient:
        return cls(principal.removeprefix(_USER), client_id or "")


Sharers = tuple[str | None, str | None]  # user and client id; None for all of them


class QuotaLimit(NamedTuple):
    """A quota that applies, and whose use of it is counted together."""

    rate: float
    shared_by: Sharers


def _candidates(client: QuotaClient) -> Iterator[tuple[ConfigEntity, Sharers]]:
    """The entities that may limit a client, the most specific first."""
    whole_user, whole_client = (client.user, None), (None, client.client_id)
    named_client = ConfigEntity(ConfigKind.CLIENT, client.client_id)
    any_client = ConfigEntity(ConfigKind.CLIENT, None)
    for user_name in (client.user, None):
        user = ConfigEntity(ConfigKind.USER, user_name)
        yield ConfigEntity(ConfigKind.CLIENT, client.client_id, user), client
        yield ConfigEntity(ConfigKind.CLIENT, None, user), client
        yield user, whole_user
    yield named_client, whole_client
    yield any_client, whole_client


@dataclass(slots=True)
class TokenBucket:
    """Tokens that come back at a rate up to a burst; it may be overdrawn."""

    rate: float
    burst: float
    tokens: float
    at_ms: int

    def take(self, count: float, now_ms: int) -> None:
        self.refill(now_ms)
        self.tokens -= count

    def refill(self, now_ms: int) -> None:
        elapsed_s = max(0, now_ms - self.at_ms) / 1000
        self.tokens = min(self.burst, self.tokens + elapsed_s * self.rate)
        self.at_ms = max(self.at_ms, now_ms)

    def is_full(self, now_ms: int) -> bool:
        self.refill(now_ms)
        return self.tokens >= self.burst

    def wait_ms(self, now_ms: int) -> int:
        """The time until nothing is overdrawn any more."""
        self.refill(now_ms)
        return max(0, round(-self.tokens / self.rate * 1000))


@dataclass(slots=True)
class Meter:
    """A rate over the last windows."""

    window_ms: int
    windows: int
    samples: deque[list[float]] = field(default_factory=deque)  # [start of the window, amount]

    def record(self, amount: float, now_ms: int) -> None:
        start = now_ms - now_ms % self.window_ms
        while self.samples and self.samples[0][0] <= start - self.windows * self.window_ms:
            self.samples.popleft()
        if self.samples and self.samples[-1][0] == start:
            self.samples[-1][1] += amount
        else:
            self.samples.append([start, amount])

    def take_back(self, amount: float) -> None:
        """Takes back what was recorded last, because it was not done."""
        self.samples[-1][1] -= amount

    def total(self, now_ms: int) -> float:
        """The amount measured in the windows that count."""
        oldest_ms = now_ms - now_ms % self.window_ms - self.windows * self.window_ms
        return sum(amount for start, amount in self.samples if start > oldest_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing was measured in any window that still counts."""
        oldest_ms = now_ms - self.windows * self.window_ms
        return not self.samples or self.samples[-1][0] <= oldest_ms

    def wait_ms(self, rate: float, now_ms: int) -> int:
        """The pause after which the measured rate is back at the limit."""
        if not self.samples:
            return 0
        # Measured over no less than all windows but one, so that a first burst is no crime.
        span_ms = max(now_ms - self.samples[0][0], (self.windows - 1) * self.window_ms, 1)
        total = sum(amount for _, amount in self.samples)
        return max(0, round(total / rate * 1000 - span_ms))


class Offer(NamedTuple):
    """The result of an offer that may be held back."""

    is_taken: bool  # do it: it was counted
    wait_ms: int


class Quotas:
    """The quotas of all clients, and what this broker has seen them use."""

    def __init__(self, elapsed_ms: Callable[[], int]) -> None:
        self._elapsed_ms = elapsed_ms
        self._limits: dict[ConfigEntity, dict[str, float]] = {}
        self._buckets: dict[Sharers, TokenBucket] = {}
        self._meters: dict[tuple[str, Sharers], Meter] = {}
        # Asked for every request and every connection, so they are kept and not looked up.
        self.is_active = False  # whether anybody is limited at all
        self.is_timing = False  # whether the time of anybody's requests is
        self.counts_connections = False
        self.waits_ms: Counter[str] = Counter()  # what clients were told to wait, by quota

    @property
    def limits(self) -> Mapping[ConfigEntity, Mapping[str, float]]:
        return self._limits

    def set_limits(self, entity: ConfigEntity, limits: Mapping[str, float]) -> None:
        """Sets the limits of one entity; an empty mapping lifts them."""
        self._limits.pop(entity, None)
        if limits:
            self._limits[entity] = dict(limits)
        limited = {key for each in self._limits.values() for key in each}
        self.is_active = bool(limited)
        self.is_timing = REQUEST_PERCENTAGE in limited
        self.counts_connections = CONNECTION_CREATION_RATE in limited

    def limit(self, key: str, client: QuotaClient) -> QuotaLimit | None:
        """The limit that holds for a client."""
        if not self._limits:
            return None
        for entity, shared_by in _candidates(client):
            rate = self._limits.get(entity, {}).get(key)
            if rate is not None:
                return QuotaLimit(rate, shared_by)
        return None

    def mutations(
        self, client: QuotaClient, settings: BrokerSettings, *, strict: bool
    ) -> Mutations:
        """The bucket of topic changes for one request of a client."""
        limit = self.limit(CONTROLLER_MUTATION_RATE, client)
        bucket = None if limit is None else self._bucket(limit, settings)
        return Mutations(bucket, self._elapsed_ms, strict)

    def _bucket(self, limit: QuotaLimit, settings: BrokerSettings) -> TokenBucket:
        windows = settings.int("controller.quota.window.num")
        burst = limit.rate * windows * settings.int("controller.quota.window.size.seconds")
        bucket = self._buckets.get(limit.shared_by)
        if bucket is None:
            self._forget_idle()
            bucket = TokenBucket(limit.rate, burst, burst, self._elapsed_ms())
            self._buckets[limit.shared_by] = bucket
        bucket.rate, bucket.burst = limit.rate, burst
        return bucket

    def use(self, key: str, client: QuotaClient, amount: float, settings: BrokerSettings) -> int:
        """Count what a client did; how many milliseconds it has to wait now."""
        limit = self.limit(key, client)
        if limit is None:
            return 0
        meter = self._meter(key, limit.shared_by, settings)
        now_ms = self._elapsed_ms()
        meter.record(amount, now_ms)
        wait_ms = min(meter.wait_ms(limit.rate, now_ms), meter.window_ms * meter.windows)
        if key == REQUEST_PERCENTAGE:
            # No longer than a window, as in Kafka: what is slow may be the broker itself.
            wait_ms = min(wait_ms, meter.window_ms)
        self.waits_ms[key] += wait_ms
        return wait_ms

    def use_time(self, client: QuotaClient, busy_s: float, settings: BrokerSettings) -> int:
        """Count for how long a client had the loop; how many milliseconds it has to wait now."""
        return self.use(REQUEST_PERCENTAGE, client, busy_s * 100, settings)

    def offer(
        self, key: str, client: QuotaClient, amount: float, settings: BrokerSettings
    ) -> Offer:
        """Whether something may be done now; it is counted where it may."""
        limit = self.limit(key, client)
        if limit is None:
            return Offer(True, 0)
        return self._offer(key, limit.shared_by, limit.rate, amount, settings)

    def offer_connection(self, address: str, settings: BrokerSettings) -> Offer:
        """Whether an address may have one more connection."""
        for name in (address, None):
            limits = self._limits.get(ConfigEntity(ConfigKind.IP, name), {})
            rate = limits.get(CONNECTION_CREATION_RATE)
            if rate is not None:
                return self._offer(CONNECTION_CREATION_RATE, (None, address), rate, 1, settings)
        return Offer(True, 0)

    def connection_wait_ms(
        self, rate: int, settings: BrokerSettings, listener: str | None = None
    ) -> int:
        """Count a connection to the broker, or to one of its listeners by a rate of its own.

        Returns how long it has to wait for the rate to be kept.
        """
        if rate >= NO_RATE:
            return 0
        meter = self._meter(CONNECTION_CREATION_RATE, (listener, None), settings)
        now_ms = self._elapsed_ms()
        meter.record(1, now_ms)
        return min(meter.wait_ms(rate, now_ms), meter.window_ms * meter.windows)

    def _offer(
        self, key: str, shared_by: Sharers, rate: float, amount: float, settings: BrokerSettings
    ) -> Offer:
        meter = self._meter(key, shared_by, settings)
        now_ms = self._elapsed_ms()
        is_first = meter.total(now_ms) <= 0
        meter.record(amount, now_ms)
        wait_ms = min(meter.wait_ms(rate, now_ms), meter.window_ms * meter.windows)
        self.waits_ms[key] += wait_ms
        # What alone is more than the limit would never fit: it is done where nothing else was.
        if wait_ms and not is_first:
            meter.take_back(amount)
            return Offer(False, wait_ms)
        return Offer(True, wait_ms)

    def most(self, key: str, client: QuotaClient, settings: BrokerSettings) -> float:
        """The most that a client which did nothing may do at once."""
        limit = self.limit(key, client)
        if limit is None:
            return math.inf
        span_s = settings.int("quota.window.num") - 1
        return limit.rate * max(span_s, 1) * settings.int("quota.window.size.seconds")

    def _meter(self, key: str, shared_by: Sharers, settings: BrokerSettings) -> Meter:
        window_ms = settings.int("quota.window.size.seconds") * 1000
        windows = settings.int("quota.window.num")
        meter = self._meters.get((key, shared_by))
        if meter is None or (meter.window_ms, meter.windows) != (window_ms, windows):
            self._forget_idle()
            meter = self._meters[key, shared_by] = Meter(window_ms, windows)
        return meter

    def _forget_idle(self) -> None:
        """Clients choose their ids, so there is no end to them: keep those that did something."""
        if len(self._buckets) + len(self._meters) < _KEPT_MAX:
            return
        now_ms = self._elapsed_ms()
        self._buckets = {k: b for k, b in self._buckets.items() if not b.is_full(now_ms)}
        self._meters = {k: m for k, m in self._meters.items() if not m.is_idle(now_ms)}


class Mutations:
    """The topic changes of one request."""

    def __init__(
        self, bucket: TokenBucket | None, elapsed_ms: Callable[[], int], strict: bool
    ) -> None:
        self._bucket = bucket
        self._elapsed_ms = elapsed_ms
        self._strict = strict

    def take(self, count: int) -> Refused | None:
        """Count some changes, or refuse them because the bucket is already overdrawn."""
        if self._bucket is None:
            return None
        now_ms = self._elapsed_ms()
        self._bucket.refill(now_ms)
        if self._strict and self._bucket.tokens < 0:
            return Refused(
                f"too many topic changes: try again in {self._bucket.wait_ms(now_ms)} ms",
                ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            )
        self._bucket.take(count, now_ms)
        return None

    @property
    def throttle_ms(self) -> int:
        """The time that the response tells the client to wait."""
        return 0 if self._bucket is None else self._bucket.wait_ms(self._elapsed_ms())
