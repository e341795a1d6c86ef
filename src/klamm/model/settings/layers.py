"""The values in force, and where each comes from.

A broker's value is the first that is set of: its own dynamic one, the cluster's dynamic one, the
one it was started with, the built-in default. A topic's value is its own, or else the broker's
under the names of its synonyms; there the layer counts before the order of the names.

All text is parsed when a layer is put on; reading a value is one look into a dict.
"""

from __future__ import annotations

import builtins
import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from klamm.model.errors import Refused, UsageError
from klamm.model.settings.broker import BROKER_SETTINGS
from klamm.model.settings.definition import (
    Definition,
    Kind,
    Source,
    Synonym,
    Value,
    value_text,
)
from klamm.model.settings.topic import TOPIC_SETTINGS

_DEFAULTS: Final[Mapping[str, Value]] = {
    name: definition.default_value for name, definition in BROKER_SETTINGS.items()
}
_LISTENER_PREFIX: Final = "listener.name."


class Origin(NamedTuple):
    """One of the texts a value could come from; the first of several is the one in force."""

    name: str
    text: str | None
    source: Source


class _Values:
    """Typed reading of settings by name; an unknown name is our own mistake, hence a KeyError."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values

    def bool(self, name: str) -> builtins.bool:
        value = self._values[name]
        assert isinstance(value, bool), f"{name} is {value!r}, not a boolean"
        return value

    def int(self, name: str) -> builtins.int:
        value = self._values[name]
        assert type(value) is int, f"{name} is {value!r}, not a whole number"
        return value

    def int_or(self, name: builtins.str, otherwise: builtins.int) -> builtins.int:
        """A whole number, or another one where it is not set at all."""
        return otherwise if self._values[name] is None else self.int(name)

    def float(self, name: str) -> builtins.float:
        value = self._values[name]
        assert isinstance(value, int | float), f"{name} is {value!r}, not a number"
        return float(value)

    def str(self, name: str) -> builtins.str:
        """The text of a setting; empty where it is not set at all."""
        value = self._values[name]
        assert value is None or isinstance(value, str), f"{name} is {value!r}, not a text"
        return value or ""

    def list(self, name: builtins.str) -> tuple[builtins.str, ...]:
        value = self._values[name]
        assert isinstance(value, tuple), f"{name} is {value!r}, not a list"
        return value

    def text(self, name: builtins.str) -> builtins.str | None:
        """Any setting as text; None where it has no value."""
        return value_text(self._values[name])


class TopicSettings(_Values):
    """The settings of one topic, as one broker sees them."""

    __slots__ = ("broker", "overrides")

    def __init__(self, broker: BrokerSettings, overrides: Mapping[str, str]) -> None:
        self.broker = broker
        self.overrides = overrides
        defaults = broker.topic_defaults
        # Most topics have no override: they share one dict.
        super().__init__(
            {**defaults, **dict(_known(TOPIC_SETTINGS, overrides))} if overrides else defaults
        )

    def origins(self, name: str) -> list[Origin]:
        """All that gives this setting a value, the one in force first."""
        definition = TOPIC_SETTINGS[name]
        own: list[Origin] = []
        if name in self.overrides:
            text = self.overrides[name]
            value = definition.parse(text)
            # What is not understood has no effect, and is shown as somebody wrote it.
            shown = text if isinstance(value, Refused) else value_text(value)
            own = [Origin(name, shown, Source.TOPIC)]
        inherited = self.broker.origins(*(synonym.name for synonym in definition.synonyms))
        if not definition.synonyms:
            inherited = [Origin(name, definition.default, Source.DEFAULT)]
        return [*own, *inherited]

    def source(self, name: str) -> Source:
        return self.origins(name)[0].source


class BrokerSettings(_Values):
    """The settings of one broker, immutable: a change is a new one."""

    __slots__ = ("_layers", "topic_defaults")

    def __init__(
        self,
        static: Mapping[str, str],
        cluster: Mapping[str, str] | None = None,
        own: Mapping[str, str] | None = None,
    ) -> None:
        # The strongest first.
        self._layers: Final[tuple[tuple[Source, Mapping[str, str]], ...]] = (
            (Source.DYNAMIC_BROKER, own or {}),
            (Source.DYNAMIC_DEFAULT_BROKER, cluster or {}),
            (Source.STATIC_BROKER, static),
        )
        values = dict(_DEFAULTS)
        for _, layer in reversed(self._layers):
            values.update(_known(BROKER_SETTINGS, layer))
        super().__init__(values)
        self.topic_defaults: Final[Mapping[str, Value]] = {
            name: self._inherited(definition) for name, definition in TOPIC_SETTINGS.items()
        }

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> BrokerSettings:
        """Settings from a command line or a file; a UsageError says what is wrong with them.

        The name of a topic setting stands for the broker setting that gives it its default.
        """
        static: dict[str, str] = {}
        for name, text in given.items():
            broker_name = _broker_name(name)
            if static.setdefault(broker_name, text) != text:
                raise UsageError(
                    f"{name} and {broker_name} mean the same and have different values"
                )
        fault = broker_fault(static)
        if fault is not None:
            raise UsageError(fault)
        settings = cls(static)
        fault = relation_fault(settings)
        if fault is not None:
            raise UsageError(fault)
        return settings

    def with_overrides(
        self, cluster: Mapping[str, str], own: Mapping[str, str] | None = None
    ) -> BrokerSettings:
        """The same start-up settings under other dynamic ones. They must have been validated."""
        return BrokerSettings(self.static, cluster, own or {})

    def with_static(self, more: Mapping[str, str]) -> BrokerSettings:
        """As if the broker had been started with these, too."""
        return BrokerSettings({**self.static, **more}, self.cluster_dynamic, self.own_dynamic)

    @property
    def static(self) -> Mapping[str, str]:
        """The settings that the broker was started with."""
        return self._layers[2][1]

    @property
    def cluster_dynamic(self) -> Mapping[str, str]:
        return self._layers[1][1]

    @property
    def own_dynamic(self) -> Mapping[str, str]:
        return self._layers[0][1]

    def for_topic(self, overrides: Mapping[str, str]) -> TopicSettings:
        """The settings of a topic with these overrides. Unknown or broken ones are left out."""
        return TopicSettings(self, overrides)

    def origins(self, *names: str) -> list[Origin]:
        """All that gives one of these names a value, the one in force first."""
        found = [
            Origin(name, layer[name], source)
            for source, layer in self._layers
            for name in names
            if name in layer
        ]
        known = (BROKER_SETTINGS[name] for name in names if name in BROKER_SETTINGS)
        defaults = (Origin(each.name, each.default, Source.DEFAULT) for each in known)
        return found + [origin for origin in defaults if origin.text is not None]

    def source(self, name: str) -> Source:
        origins = self.origins(name)
        return origins[0].source if origins else Source.DEFAULT

    @property
    def further_names(self) -> list[str]:
        """Names that were set while the broker ran and have no line in the table."""
        given = {**self.cluster_dynamic, **self.own_dynamic}
        return [name for name in given if name not in BROKER_SETTINGS]

    def _inherited(self, topic: Definition) -> Value:
        for origin in self.origins(*(synonym.name for synonym in topic.synonyms)):
            synonym = _named(topic.synonyms, origin.name)
            value = BROKER_SETTINGS[origin.name].parse(origin.text or "")
            if not isinstance(value, Refused):
                return synonym.scaled(value)
        return topic.default_value


def _named(synonyms: Iterable[Synonym], name: str) -> Synonym:
    return next(synonym for synonym in synonyms if synonym.name == name)


def _known(
    table: Mapping[str, Definition], texts: Mapping[str, str]
) -> Iterator[tuple[str, Value]]:
    """The values that can be read; what a hand or another version stored may not be."""
    for name, text in texts.items():
        definition = table.get(name)
        value = definition.parse(text) if definition is not None else None
        if definition is not None and not isinstance(value, Refused):
            yield name, value


def _find(name: str) -> Definition | None:
    """The definition behind a broker setting's name, also in its form for one listener."""
    if name.startswith(_LISTENER_PREFIX):
        parts = name.removeprefix(_LISTENER_PREFIX).split(".")
        tails = (".".join(parts[at:]) for at in range(1, len(parts)))
        return next((BROKER_SETTINGS[tail] for tail in tails if tail in BROKER_SETTINGS), None)
    return BROKER_SETTINGS.get(name)


def _broker_name(name: str) -> str:
    if name in BROKER_SETTINGS or name not in TOPIC_SETTINGS:
        return name
    synonyms = TOPIC_SETTINGS[name].synonyms
    return synonyms[0].name if synonyms else name


def meant(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that is no setting: the one that was probably meant."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def broker_fault(texts: Mapping[str, str]) -> str | None:
    """The fault in the first wrong one of these broker settings."""
    for name, text in texts.items():
        definition = _find(name)
        if definition is None:
            if name in TOPIC_SETTINGS:
                return f"{name} is a setting of topics, and brokers have no default for it"
            known = [*BROKER_SETTINGS, *TOPIC_SETTINGS]
            return f"{name} is not a broker or topic setting{meant(name, known)}"
        value = definition.parse(text)
        if isinstance(value, Refused):
            return value.why
    return None


def unknown_settings(texts: Mapping[str, str]) -> dict[str, str]:
    """Those of a broker's settings that are none of klamm's: a plug-in's, or misspelt."""
    return {name: text for name, text in texts.items() if _find(name) is None}


def is_protecting(name: str) -> bool:
    """Whether a name that is no setting looks like one of security."""
    lowered = name.lower()
    prefix = ".".join(lowered.split(".")[:2]) + "."
    is_override = difflib.SequenceMatcher(None, prefix, _LISTENER_PREFIX).ratio() > _ALIKE
    return is_override or any(
        text.startswith(_PROTECTING) for text in (lowered, _guess(name), _guess(lowered))
    )


def _guess(name: str) -> str:
    close = difflib.get_close_matches(name, list(BROKER_SETTINGS), n=1, cutoff=_ALIKE)
    return _broker_name(name) if name in TOPIC_SETTINGS else close[0] if close else ""


def unknown_warning(name: str) -> str:
    """The warning about a setting that is stored and that nobody acts on."""
    guess = _guess(name)
    hint = f" Did you mean {guess}?" if guess else ""
    if is_protecting(name):
        return f"{name} looks like a setting of security and PROTECTS NOTHING.{hint}"
    return f"{name} is no setting of klamm and has no effect.{hint}"


_PROTECTING: Final = (
    "allow.everyone",
    "authorizer",
    "connection.failed.authentication",
    "connections.max.reauth",
    "delegation.token",
    "early.start.listeners",
    "inter.broker.listener",
    "advertised.listeners",
    "control.plane.listener",
    "controller.listener",
    "klamm.",
    "listener",
    "max.connection",
    "password.encoder",
    "principal.",
    "sasl.",
    "security.",
    "ssl.",
    "super.users",
    "zookeeper.client",
    "zookeeper.s",
)
_ALIKE: Final = 0.8  # as difflib counts


def described(name: str) -> Definition:
    """The definition behind a stored name, also of one that nobody knows."""
    known = _find(name)
    if known is None:
        return Definition(name=name, kind=Kind.UNKNOWN, default=None, doc="")
    return replace(known, name=name)


def relation_fault(settings: BrokerSettings) -> str | None:
    """The fault of two settings that contradict each other."""
    topic = settings.for_topic({})
    if topic.int("retention.ms") == 0:
        return "log.retention.ms, .minutes and .hours must not be 0; -1 means for ever"
    if settings.int(_PER_IP) == 0 and not settings.list(f"{_PER_IP}.overrides"):
        return f"{_PER_IP} can be 0 only where {_PER_IP}.overrides lets somebody in"
    for less, more in ORDERED:
        if settings.int(less) > settings.int(more):
            return f"{less}={settings.int(less)} must not be more than {more}={settings.int(more)}"
    return _lag_fault(topic)


_PER_IP: Final = "max.connections.per.ip"
ORDERED: Final = (
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
)


def topic_faults(overrides: Mapping[str, str], broker: BrokerSettings) -> str | None:
    """The faults in a topic's overrides on top of this broker's settings."""
    for name, text in overrides.items():
        definition = TOPIC_SETTINGS.get(name)
        if definition is None:
            return f"Unknown topic config name: {name}{meant(name, TOPIC_SETTINGS)}"
        value = definition.parse(text)
        if isinstance(value, Refused):
            return value.why
    topic = broker.for_topic(overrides)
    return _lag_fault(topic) or _remote_fault(topic, broker)


def _lag_fault(topic: TopicSettings) -> str | None:
    least, most = topic.int("min.compaction.lag.ms"), topic.int("max.compaction.lag.ms")
    if least > most:
        return (
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})"
        )
    return None


def _remote_fault(topic: TopicSettings, broker: BrokerSettings) -> str | None:
    """Remote storage cannot be had, so only the switch itself needs looking at."""
    for name in ("remote.log.copy.disable", "remote.log.delete.on.disable"):
        if topic.bool(name):
            return f"{name} cannot be switched on in ZooKeeper mode"
    if not topic.bool("remote.storage.enable"):
        return None
    if not broker.bool("remote.log.storage.system.enable"):
        return "remote.storage.enable needs remote.log.storage.system.enable on the brokers"
    if "compact" in topic.list("cleanup.policy"):
        return "remote.storage.enable cannot be combined with a cleanup.policy of compact"
    for unit in ("bytes", "ms"):
        whole, local = topic.int(f"retention.{unit}"), topic.int(f"local.retention.{unit}")
        if whole > -1 and local != -2 and (local == -1 or local > whole):
            return f"local.retention.{unit}={local} must not be more than retention.{unit}={whole}"
    return None
