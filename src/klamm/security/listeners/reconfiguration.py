"""Decides what may change while a broker runs (KIP-226), and words the refusals.

A listener that is open keeps what it was opened with, but for its certificates; other settings hold
for listeners that are added. So nobody can weaken a door that somebody is relying on, only open a
new one. `names_fault` looks at the names in a request alone; `listeners_fault` compares all that
would be in force with what is; `certificate_fault` compares an old certificate with a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from klamm.model.errors import ErrorCode, Refused
from klamm.security.listeners.config import (
    ADVERTISED,
    DEFAULT_LISTENERS,
    LISTENERS,
    ListenerConfig,
    listener_config,
)
from klamm.security.listeners.endpoints import DEFAULT_MAP, PROTOCOL_MAP, split_list
from klamm.security.listeners.overrides import PREFIX

# Certificates and what they are opened with: only under the prefix of a listener.
STORES: Final = frozenset(
    {
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.key.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
    }
)
ENDPOINTS: Final = frozenset({LISTENERS, ADVERTISED, PROTOCOL_MAP})
# They hold for listeners that are added later.
FOR_NEW: Final = frozenset(
    {
        "ssl.protocol",
        "ssl.provider",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.endpoint.identification.algorithm",
        "ssl.secure.random.implementation",
        "ssl.client.auth",
        "ssl.engine.factory.class",
        "principal.builder.class",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.mechanism.inter.broker.protocol",
        "sasl.kerberos.service.name",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.buffer.seconds",
    }
)
# Limits on connections hold for the cluster or a broker, and at once.
LIMITS: Final = frozenset(
    {
        "max.connections",
        "max.connection.creation.rate",
        "num.network.threads",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
    }
)
_PER_BROKER: Final = STORES | ENDPOINTS | FOR_NEW
# By the end of the name, as Kafka's: whoever encodes and hides secrets asks the same question.
PASSWORDS: Final = (
    "sasl.jaas.config",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.truststore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
)


def is_password(name: str) -> bool:
    """Whether a dynamic setting is kept encoded, and never shown."""
    return name.endswith(PASSWORDS)


def is_dynamic(name: str) -> bool:
    """Whether this setting about listeners and security can be changed at run time."""
    return name in _PER_BROKER or name in LIMITS or _under_prefix(name) is not None


def _under_prefix(name: str) -> str | None:
    """The dynamic setting at the end of an override; custom settings of plug-ins have none."""
    if not name.startswith(PREFIX):
        return None
    ends = (s for s in _PER_BROKER | LIMITS if name.endswith("." + s))
    return max(ends, key=len, default=None)


def names_fault(names: Iterable[str], *, for_cluster: bool, has_encoder: bool) -> Refused | None:
    """The reason why settings of these names cannot be changed in this place."""
    named = sorted(names)
    fixed = [name for name in named if not is_dynamic(name)]
    if fixed:
        return _refused(f"Cannot update these configs dynamically: {_set(fixed)}")
    bare = [name for name in named if name in STORES]
    if bare:
        return _refused(
            "These security configs can be dynamically updated only per-listener using the "
            f"listener prefix: {_set(bare)}"
        )
    passwords = [name for name in named if is_password(name)]
    if for_cluster:
        if passwords:
            return _refused("Password config can be defined only at broker level")
        own = [name for name in named if (_under_prefix(name) or name) in _PER_BROKER]
        if own:
            return _refused(
                "Cannot update these configs at default cluster level, broker id must be "
                f"specified: {_set(own)}"
            )
    if passwords and not has_encoder:
        return _refused("Password encoder secret not configured")
    return None


@dataclass(frozen=True, slots=True)
class ListenersChange:
    """The change to the listeners. One that moved to another address under its name stays put."""

    config: ListenerConfig
    added: tuple[str, ...]
    removed: tuple[str, ...]
    reloaded: tuple[str, ...]  # their certificates have changed


def listeners_change(
    old: ListenerConfig, old_texts: Mapping[str, str], new_texts: Mapping[str, str]
) -> ListenersChange | Refused:
    """The effect of a change of settings on the listeners, from all texts before and after it."""
    if why := _names_fault(new_texts, old.inter_broker):
        return _wrapped(why)
    new = listener_config(new_texts)
    if isinstance(new, Refused):
        return _wrapped(new.why)
    was, will = {one.name: one for one in old.listeners}, {one.name: one for one in new.listeners}
    reloaded = []
    for name in sorted(was.keys() & will.keys()):
        if was[name].protocol is not will[name].protocol:
            return _wrapped(f"Security protocol cannot be updated for existing listener {name}")
        changed = _changed_under(f"{PREFIX}{name.lower()}.", old_texts, new_texts)
        if changed - STORES - LIMITS:
            return _wrapped(
                f"Configs cannot be updated dynamically for existing listener {name}, restart "
                "broker or create a new listener for update"
            )
        if why := _store_fault(name, old_texts, new_texts):
            return _wrapped(why)
        if changed & STORES:
            reloaded.append(name)
    return ListenersChange(
        new,
        tuple(name for name in will if name not in was),
        tuple(name for name in was if name not in will),
        tuple(reloaded),
    )


def _names_fault(texts: Mapping[str, str], inter_broker: str) -> str | None:
    """The reason why the names in the three lists do not fit, worded for a change at run time."""

    def names(setting: str, mark: str, default: str) -> set[str]:
        items = split_list(texts.get(setting) or default)
        return {item.rpartition(mark)[0].strip().upper() for item in items}

    listeners = names(LISTENERS, "://", DEFAULT_LISTENERS)
    advertised = names(ADVERTISED, "://", texts.get(LISTENERS, DEFAULT_LISTENERS))
    mapped = names(PROTOCOL_MAP, ":", ",".join(f"{name}:{name}" for name in DEFAULT_MAP))
    if not advertised <= listeners:
        return (
            f"Advertised listeners '{_list(advertised)}' must be a subset of listeners "
            f"'{_list(listeners)}'"
        )
    if not listeners <= mapped:
        return f"Listeners '{_list(listeners)}' must be subset of listener map '{_list(mapped)}'"
    if inter_broker not in advertised:
        return f"Advertised listener must be specified for inter-broker listener {inter_broker}"
    return None


def _changed_under(prefix: str, old: Mapping[str, str], new: Mapping[str, str]) -> set[str]:
    return {
        name.removeprefix(prefix)
        for name in old.keys() | new.keys()
        if name.startswith(prefix) and old.get(name) != new.get(name)
    }


_KEY_STORE: Final = ("ssl.keystore.location", "ssl.keystore.key")
_TRUST_STORE: Final = ("ssl.truststore.location", "ssl.truststore.certificates")


def _store_fault(name: str, old: Mapping[str, str], new: Mapping[str, str]) -> str | None:
    def has(texts: Mapping[str, str], store: tuple[str, ...]) -> bool:
        prefix = f"{PREFIX}{name.lower()}."
        return any(texts.get(prefix + one) or texts.get(one) for one in store)

    if has(new, _KEY_STORE) and not has(old, _KEY_STORE):
        return (
            "Cannot add SSL keystore to an existing listener for which no keystore was configured."
        )
    if has(old, _KEY_STORE) and not has(new, _KEY_STORE):
        return (
            "Cannot remove the SSL keystore from an existing listener for which a keystore was "
            "configured."
        )
    if has(new, _TRUST_STORE) and not has(old, _TRUST_STORE):
        return (
            "Cannot add SSL truststore to an existing listener for which no truststore was "
            "configured."
        )
    return None


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """The facts of a key store that must stay: the number of entries, and whom each stands for."""

    subjects: tuple[str, ...]  # RFC 2253, one an entry
    names: tuple[frozenset[str], ...]  # alternative names, one set an entry


def certificate_fault(
    old: CertificateFacts, new: CertificateFacts, *, allow_subject: bool, allow_names: bool
) -> Refused | None:
    """The reason why a listener cannot take another certificate: it would be somebody else."""
    if len(old.subjects) != len(new.subjects):
        return _wrapped(
            f"Keystore entries do not match: there were {len(old.subjects)}, now there are "
            f"{len(new.subjects)}"
        )
    for before, after in zip(old.subjects, new.subjects, strict=True):
        if not allow_subject and before.casefold() != after.casefold():
            return _wrapped(
                f"Keystore DistinguishedName does not match: existing={before}, new={after}. "
                "Set ssl.allow.dn.changes to allow it"
            )
    for held, given in zip(old.names, new.names, strict=True):
        if not allow_names and not held <= given:
            return _wrapped(
                f"Keystore SubjectAltNames do not match: {_list(held - given)} would be missing. "
                "Set ssl.allow.san.changes to allow it"
            )
    return None


def _refused(why: str) -> Refused:
    return Refused(why, ErrorCode.INVALID_CONFIG)


def _wrapped(why: str) -> Refused:
    """In the words in which Kafka hands on what a part of the broker refused."""
    return _refused(
        f"Invalid value org.apache.kafka.common.config.ConfigException: {why} for configuration "
        "Invalid dynamic configuration"
    )


def _set(names: Iterable[str]) -> str:
    return "{" + ", ".join(names) + "}"


def _list(names: Iterable[str]) -> str:
    return ",".join(sorted(names))
