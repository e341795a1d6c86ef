"""Asking a cluster, through whichever broker answers. Blocking.

Everything is tried again a few times, on any broker that answers, because an exception in Spark's
planning ends the query; what is raised in the end is what a user must act on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from klamm.client import metadata
from klamm.client.addresses import Address
from klamm.client.blocking.wire import Wire, lease
from klamm.client.errors import Answered, Unreachable, nobody
from klamm.client.metadata import View
from klamm.client.retries import COORDINATOR_MOVED, may_pass
from klamm.client.settings import ConnectionOptions
from klamm.protocol.apis import ApiKey
from klamm.protocol.messages import metadata as messages

T = TypeVar("T")
TIMEOUT_MS: Final = 30_000


@dataclass(slots=True)
class Asker:
    """Knows the brokers, and whom to ask next when one does not answer."""

    options: ConnectionOptions
    retries: int = 3
    retry_interval_ms: int = 100
    _known: list[Address] = field(default_factory=list)

    def view(self, topics: Iterable[str] | None = None) -> View:
        """Metadata of some topics, or of all. Topics that do not exist are absent."""
        request = metadata.request(topics)
        return self._again(lambda: self._view(request))

    def ask(self, key: int, request: Any) -> Any:
        """Asks any broker that answers."""
        return self._again(lambda: self._any(lambda wire: wire.call(key, request)))

    def ask_controller(self, key: int, request: Any) -> Any:
        """Asks the controller."""
        view = self.view([])
        address = view.brokers.get(view.controller)
        if address is None:
            raise Unreachable("the cluster has no controller now")
        with lease(address, self.options) as wire:
            return wire.call(key, request)

    def serves(self, key: int) -> bool:
        """Whether the cluster has an API, as far as a broker that answers can tell."""
        return self._again(lambda: self._any(lambda wire: wire.serves(key)))

    def _again(self, look: Callable[[], T]) -> T:
        attempt = 0
        patience = time.monotonic() + TIMEOUT_MS / 1000
        while True:
            try:
                return look()
            except (Unreachable, Answered) as fault:
                code = fault.code if isinstance(fault, Answered) else None
                # The first use of groups creates a topic, which may take a moment.
                if code in COORDINATOR_MOVED and time.monotonic() < patience:
                    time.sleep(0.1)
                    continue
                attempt += 1
                if not may_pass(fault) or attempt > self.retries:
                    raise
                time.sleep(self.retry_interval_ms * attempt / 1000)

    def _any(self, talk: Callable[[Wire], T]) -> T:
        faults: list[Exception] = []
        for address in dict.fromkeys([*self._known, *self.options.bootstrap]):
            try:
                with lease(address, self.options) as wire:
                    return talk(wire)
            except Unreachable as fault:
                faults.append(fault)
        raise nobody(faults)

    def _view(self, request: messages.Request) -> View:
        view = self._seen(self._any(lambda wire: wire.call(ApiKey.METADATA, request)))
        address = view.brokers.get(view.controller)
        if len(view.topics) >= len(request.topics or ()) or address is None:
            return view
        # A broker may hear of a new topic a moment after whoever created it; the controller knows.
        try:
            with lease(address, self.options) as wire:
                answer = wire.call(ApiKey.METADATA, request)
        except Unreachable:
            return view
        return self._seen(answer)

    def _seen(self, answer: messages.Response) -> View:
        view = metadata.picture_of(answer).view()
        self._known = list(view.brokers.values())
        return view
