"""Every setting of a broker: those klamm acts on, its own, and those it only takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from klamm.model.settings import broker_clients as clients
from klamm.model.settings import broker_cluster as cluster
from klamm.model.settings.broker_idle import IDLE
from klamm.model.settings.broker_klamm import KLAMM
from klamm.model.settings.broker_log import LOG_SETTINGS, TOPIC_DEFAULTS
from klamm.model.settings.definition import Definition, by_name

# In the order of the documentation.
GROUPS: Final[Mapping[str, tuple[Definition, ...]]] = {
    "Topics and their administration": cluster.TOPIC_ADMIN,
    "Defaults of topic settings": TOPIC_DEFAULTS,
    "Brokers and the controller": cluster.CONTROLLER,
    "Replication": cluster.REPLICATION,
    "Logs": LOG_SETTINGS,
    "Consumer groups": clients.GROUPS,
    "Transactions": clients.TRANSACTIONS,
    "Quotas": clients.QUOTAS,
    "Network": clients.NETWORK,
    "klamm's own": KLAMM,
    "Without effect": IDLE,
}

BROKER_SETTINGS: Final[Mapping[str, Definition]] = by_name(
    definition for group in GROUPS.values() for definition in group
)
