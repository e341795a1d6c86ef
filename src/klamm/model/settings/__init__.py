"""Settings: what may be set (`topic`, `broker`), and what is in force (`layers`)."""

from klamm.model.settings.broker import BROKER_SETTINGS, UNTOLD
from klamm.model.settings.definition import Definition, Dynamic, Kind, Source, value_text
from klamm.model.settings.layers import (
    BrokerSettings,
    Origin,
    TopicSettings,
    broker_fault,
    described,
    relation_fault,
    topic_faults,
    unknown_settings,
    unknown_warning,
)
from klamm.model.settings.topic import TOPIC_SETTINGS

__all__ = [
    "BROKER_SETTINGS",
    "TOPIC_SETTINGS",
    "UNTOLD",
    "BrokerSettings",
    "Definition",
    "Dynamic",
    "Kind",
    "Origin",
    "Source",
    "TopicSettings",
    "broker_fault",
    "described",
    "relation_fault",
    "topic_faults",
    "unknown_settings",
    "unknown_warning",
    "value_text",
]
