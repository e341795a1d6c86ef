"""Settings of one listener: `listener.name.<l>.*` before what holds for the whole broker.

A name can be said for a mechanism (`listener.name.<l>.<m>.<setting>`), for the listener, and for
the broker; the nearest counts. The prefix has the names of the listener and the mechanism in lower
case. Some settings hold only at one of these levels, where they would otherwise weaken another
listener or mechanism.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from klamm.security.listeners.endpoints import SecurityProtocol

PREFIX: Final = "listener.name."
CLIENT_AUTH: Final = "ssl.client.auth"
# A text of these without a mechanism says nothing to a listener with several.
MECHANISM_ONLY: Final = frozenset({"sasl.jaas.config", "sasl.server.callback.handler.class"})


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """The settings in force, as one listener sees them."""

    listener: str
    protocol: SecurityProtocol
    texts: Mapping[str, str]  # all that is set, under its full names

    @property
    def prefix(self) -> str:
        """The prefix of this listener's own settings."""
        return f"{PREFIX}{self.listener.lower()}."

    def get(self, name: str, mechanism: str | None = None) -> str | None:
        """The text in force; None where only the default is left."""
        for key in self._keys(name, mechanism):
            if (text := self.texts.get(key)) is not None:
                return text
        return None

    def _keys(self, name: str, mechanism: str | None) -> Iterable[str]:
        if mechanism is not None:
            yield f"{self.prefix}{mechanism.lower()}.{name}"
        if name in MECHANISM_ONLY:
            return
        yield self.prefix + name
        # Who locked SSL listeners by certificates did not mean SASL_SSL ones (KIP-684).
        if name != CLIENT_AUTH or self.protocol is not SecurityProtocol.SASL_SSL:
            yield name


def misspelt(texts: Iterable[str], listeners: Iterable[str]) -> list[str]:
    """Overrides for these listeners that Kafka would not read, for a name is not in lower case."""
    prefixes = [f"{PREFIX}{name.lower()}." for name in listeners]
    return sorted({name for name in texts for prefix in prefixes if _is_misspelt(name, prefix)})


def _is_misspelt(name: str, prefix: str) -> bool:
    if not name.lower().startswith(prefix):
        return False
    mechanism = name[len(prefix) :].partition(".")[0]
    return not name.startswith(prefix) or (
        mechanism.upper() in _MECHANISMS and mechanism != mechanism.lower()
    )


def setting_of(name: str, listeners: Iterable[str]) -> str:
    """The setting that an override is about, without listener and mechanism; others as they are."""
    return _split(name, listeners)[1]


def mechanism_of(name: str, listeners: Iterable[str]) -> str | None:
    """The mechanism that an override is for, if it is for one."""
    return _split(name, listeners)[0]


def _split(name: str, listeners: Iterable[str]) -> tuple[str | None, str]:
    """The mechanism and the setting of an override."""
    for listener in sorted(listeners, key=len, reverse=True):
        prefix = f"{PREFIX}{listener.lower()}."
        if name.startswith(prefix):
            rest = name.removeprefix(prefix)
            mechanism, _, setting = rest.partition(".")
            is_one = mechanism.upper() in _MECHANISMS
            return (mechanism.upper(), setting) if is_one else (None, rest)
    return None, name


_MECHANISMS: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"})
