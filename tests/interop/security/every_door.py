"""One cluster with every kind of listener and every mechanism, and what its brokers say.

The clients of `test_matrix` come in by it, and those of `interop_extra`.
"""

from __future__ import annotations

import contextlib
import logging
import queue
from collections.abc import Iterator

from klamm import Cluster, Security
from klamm.secured.wishes import MECHANISMS, ListenerKind

CERTIFICATES: tuple[tuple[str, str | None], ...] = (("SSL", None), ("MTLS", None))
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


@contextlib.contextmanager
def every_door() -> Iterator[Cluster]:
    """A cluster in which `alice`, and whoever shows nothing, own what is named after them."""
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


@contextlib.contextmanager
def listening() -> Iterator[Refusals]:
    """What brokers say about those who come in, from now on."""
    logger, handler = logging.getLogger("klamm.broker.identity"), Refusals()
    logger.addHandler(handler)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
