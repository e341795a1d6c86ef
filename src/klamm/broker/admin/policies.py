"""Policies: Python callables, named in settings, that may refuse what somebody asks for.

A setting names `package.module:callable`. A class is instantiated once, without arguments. The
callable gets one argument (a `Proposal` for a new topic, an `Alteration` for changed settings, the
name of a topic to be deleted) and returns None to agree or a sentence to refuse with.

A policy that fails refuses: what guards a cluster must not open it by breaking.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from klamm.broker.plugins import load
from klamm.controller.admission import Proposal
from klamm.model.settings import BrokerSettings

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alteration:
    """The facts a policy on changed settings may look at: only the entries of the request."""

    resource_type: str  # "topic" or "broker"
    resource_name: str
    configs: Mapping[str, str | None]  # None where a setting is taken back


@dataclass(frozen=True, slots=True)
class PolicyGuard(Generic[T]):
    """A policy that always has an answer."""

    setting: str
    ask: Callable[[T], object]

    def __call__(self, proposal: T) -> str | None:
        try:
            answer = self.ask(proposal)
        except Exception as fault:
            # Somebody else's code, of which nothing is known.
            log.exception("a policy failed", extra={"setting": self.setting})
            return f"the policy of {self.setting} failed: {fault}"
        return None if answer is None else str(answer)


@dataclass(frozen=True, slots=True)
class Policies:
    """Those of one broker; None where nobody is to be asked."""

    create: PolicyGuard[Proposal] | None = None
    alter: PolicyGuard[Alteration] | None = None
    delete: PolicyGuard[str] | None = None

    @classmethod
    def of(cls, settings: BrokerSettings) -> Policies:
        """Import what the settings name; a UsageError says what cannot be."""
        return cls(
            _guard(settings, "create.topic.policy.class.name"),
            _guard(settings, "alter.config.policy.class.name"),
            _guard(settings, "klamm.delete.topic.policy"),
        )


def _guard(settings: BrokerSettings, setting: str) -> PolicyGuard[Any] | None:
    name = settings.str(setting)
    return PolicyGuard(setting, load(setting, name)) if name else None
