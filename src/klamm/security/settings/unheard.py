"""Settings that nobody would read, because there is no such door, or they do not hold for one.

Kafka keeps what it does not know under a listener's prefix for plug-ins, and takes a broker's
settings there without a word. Somebody who locks a listener with `listener.name.x.super.users`, or
a PLAINTEXT one with `ssl.client.auth`, would never learn that it stands open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from klamm.model.settings import BROKER_SETTINGS
from klamm.security.listeners.config import ListenerConfig
from klamm.security.listeners.endpoints import (
    PROTOCOL_MAP,
    Listener,
    SecurityProtocol,
    split_list,
)
from klamm.security.listeners.overrides import MECHANISM_ONLY, PREFIX, mechanism_of, setting_of
from klamm.security.settings.table import SECURITY_SETTINGS, Effect

# Beside ssl.* and sasl.*.
_OF_A_LISTENER: Final = frozenset(
    {
        "connections.max.reauth.ms",
        "klamm.ssl.crl.location",
        "max.connection.creation.rate",
        "max.connections",
        "num.network.threads",
        "principal.builder.class",
    }
)
_OF_TLS: Final = ("ssl.", "klamm.ssl.")
_OF_SASL: Final = ("sasl.", "connections.max.reauth.ms")
_OF_A_MECHANISM: Final = (
    *MECHANISM_ONLY,
    "connections.max.reauth.ms",
    "sasl.kerberos.",
    "sasl.login.",
    "sasl.oauthbearer.",
)


def unheard(texts: Mapping[str, str], config: ListenerConfig) -> Iterator[str]:
    """The reasons why settings would have no effect where they stand."""
    by_name = {listener.name: listener for listener in config.listeners}
    coming = _coming(texts)
    for name in sorted(texts):
        setting = setting_of(name, by_name)
        if not name.startswith(PREFIX):
            yield from _without_a_door(name, texts[name], [*by_name.values()], [*coming.values()])
        elif setting == name:
            listener = name.removeprefix(PREFIX)
            if not any(listener.lower().startswith(f"{one.lower()}.") for one in coming):
                yield (
                    f"{name} is for a listener that is not there: these are "
                    f"{', '.join(sorted(by_name))}. Name one of them in lower case, or name the "
                    f"one to come in {PROTOCOL_MAP}"
                )
        else:
            yield from _under_a_prefix(name, setting, texts[name], _named(name, by_name))


def _under_a_prefix(name: str, setting: str, text: str, listener: Listener) -> Iterator[str]:
    if setting not in BROKER_SETTINGS and setting not in SECURITY_SETTINGS:
        yield f"{name} would not be read: {setting} is no setting, nor one of a mechanism"
    elif setting not in _OF_A_LISTENER and not setting.startswith((*_OF_TLS, "sasl.")):
        yield f"{name} would not be read: {setting} is of the whole broker. Leave out the prefix"
    elif mechanism_of(name, [listener.name]) and not setting.startswith(_OF_A_MECHANISM):
        yield f"{name} would not be read: {setting} is of a listener, not of a mechanism"
    elif _asks(setting, text) and not _fits(setting, listener.protocol):
        yield f"{name} has no effect: listener {listener.name} is {listener.protocol.value}"


def _fits(setting: str, protocol: SecurityProtocol) -> bool:
    """Whether listeners of a protocol heed a setting."""
    if setting.startswith(_OF_TLS):
        return protocol.is_encrypted
    return protocol.has_sasl or not setting.startswith(_OF_SASL)


def _without_a_door(
    name: str, text: str, listeners: list[Listener], coming: list[SecurityProtocol]
) -> Iterator[str]:
    """The reason why a setting of the whole broker is about listeners that are not there."""
    protocols = [*(listener.protocol for listener in listeners), *coming]
    if _asks(name, text) and not any(_fits(name, protocol) for protocol in protocols):
        missing = "speaks TLS" if name.startswith(_OF_TLS) else "asks for SASL"
        yield (
            f"{name} has no effect: no listener {missing}. Add one to listeners, name one to come "
            f"in {PROTOCOL_MAP}, or leave it out"
        )


def _asks(setting: str, text: str) -> bool:
    """Whether a text asks for anything that does not hold anyway."""
    known, definition = SECURITY_SETTINGS.get(setting), BROKER_SETTINGS.get(setting)
    if known is not None and known.effect is Effect.HARMLESS:
        return False
    return text.strip() != "" and (definition is None or text != definition.default)


def _named(name: str, listeners: Mapping[str, Listener]) -> Listener:
    fitting = [one for one in listeners if name.startswith(f"{PREFIX}{one.lower()}.")]
    return listeners[max(fitting, key=len)]


def _coming(texts: Mapping[str, str]) -> dict[str, SecurityProtocol]:
    """The listeners that may be added while the broker runs."""
    items = (item.rpartition(":") for item in split_list(texts.get(PROTOCOL_MAP, "")))
    return {
        name.strip().upper(): SecurityProtocol[protocol.strip().upper()]
        for name, _, protocol in items
    }
