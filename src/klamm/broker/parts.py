"""All the parts of a broker that requests are answered with."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.broker.admin.auto_creation import AutoCreation
from klamm.broker.admin.policies import Policies
from klamm.broker.admin.topic_admin import TopicAdmin
from klamm.broker.coordinators.groups import GroupCoordinator
from klamm.broker.coordinators.replicated import Coordinators
from klamm.broker.coordinators.transactions import TransactionCoordinator
from klamm.broker.fetching.fetch_sessions import FetchSessions
from klamm.broker.ledger.ledger_topic import LedgerTopic
from klamm.broker.producer_ids import ProducerIds
from klamm.broker.replicas.hosting import Hosting
from klamm.broker.replicas.relocations import Relocations
from klamm.broker.term.controlling import ControllerShell


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Hosting):
    """Every part of one broker; the server builds them (`building.py`), starts and stops them."""

    relocations: Relocations
    sessions: FetchSessions
    producer_ids: ProducerIds
    coordinators: Coordinators
    controller: ControllerShell
    policies: Policies
    admin: TopicAdmin
    auto_creation: AutoCreation
    ledger_topic: LedgerTopic

    @property
    def is_controller(self) -> bool:
        return self.controller.is_active

    @property
    def groups(self) -> GroupCoordinator:
        return self.coordinators.groups

    @property
    def transactions(self) -> TransactionCoordinator:
        return self.coordinators.transactions
