"""Whether a broker may start with its settings: all that is wrong, and all that is worth a warning.

The rule of this page: no configuration yields a less protected cluster than it asked for. What is
malformed, unknown, of a part that the shell does not have, or contradicts another setting, refuses
the start with a sentence; what has no effect and harms nobody is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from klamm.model.errors import Refused
from klamm.model.scram import ScramMechanism
from klamm.model.settings import BROKER_SETTINGS
from klamm.security.credentials.encoder import CBC, settings_fault
from klamm.security.listeners.config import ListenerConfig, listener_config
from klamm.security.listeners.endpoints import Listener, SecurityProtocol, split_list
from klamm.security.listeners.overrides import (
    CLIENT_AUTH,
    MECHANISM_ONLY,
    PREFIX,
    ListenerSettings,
    misspelt,
    setting_of,
)
from klamm.security.sasl.jaas import Jaas, parse_jaas
from klamm.security.settings.deceptions import deceptions, doubts
from klamm.security.settings.table import (
    OAUTH_VALIDATORS,
    SECURITY_PREFIXES,
    SECURITY_SETTINGS,
    Effect,
    Feature,
)
from klamm.security.tls.config import tls_config
from klamm.security.zookeeper import zookeeper_access

ALL_FEATURES: Final = frozenset(Feature)
ALLOW_UNSECURED_OAUTH: Final = "klamm.allow.unsecured.oauth"
_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    ScramMechanism.SHA_256.value: "ScramLoginModule",
    ScramMechanism.SHA_512.value: "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
}
MECHANISMS: Final = tuple(_MODULES)


@dataclass(frozen=True, slots=True)
class StartCheck:
    """The reasons why a broker may not start (none: it may), and warnings."""

    refusals: tuple[str, ...]
    warnings: tuple[str, ...]
    listeners: ListenerConfig | None = None


def check_start(
    texts: Mapping[str, str],
    features: frozenset[Feature] = ALL_FEATURES,
    *,
    is_running: bool = False,
) -> StartCheck:
    """Checks all settings about security, of those that were set, against what the shell has.

    A running broker may be given a listener's settings before the listener, as Kafka's may.
    """
    config = listener_config(texts)
    if isinstance(config, Refused):
        return StartCheck((config.why,), ())
    names = [listener.name for listener in config.listeners]
    refusals = [
        *_name_faults(texts, names),
        *_value_faults(texts, names, features),
        *_relation_faults(texts, config, features),
        *deceptions(texts, config, is_running=is_running),
    ]
    return StartCheck(tuple(refusals), tuple(_warnings(texts, config)), config)


def _name_faults(texts: Mapping[str, str], listeners: list[str]) -> Iterator[str]:
    for name in misspelt(texts, listeners):
        yield f"{name} would not be read: write its prefix in lower case, {name.lower()}"
    for name in sorted(texts):
        setting = setting_of(name, listeners)
        if setting.startswith(SECURITY_PREFIXES) and setting not in SECURITY_SETTINGS:
            yield f"{name} is no setting about security that klamm knows. Check how it is spelt"


def _value_faults(
    texts: Mapping[str, str], listeners: list[str], features: frozenset[Feature]
) -> Iterator[str]:
    for name, text in sorted(texts.items()):
        setting = SECURITY_SETTINGS.get(setting_of(name, listeners))
        if setting is None:
            continue
        if setting.effect is Effect.REFUSED:
            if text != setting.default:
                yield f"{name} {setting.why}"
        elif setting.feature not in features and setting.feature is not None:
            if _is_default(setting.name, text):
                continue
            yield f"{name} asks for {setting.feature}, which is not built in yet. Leave it out"
        elif setting.rule is not None and (fault := setting.rule(text)):
            yield f"{name} {fault}"


def _is_default(name: str, text: str) -> bool:
    """Whether a text says what holds anyway."""
    definition = BROKER_SETTINGS.get(name)
    return definition is not None and text == definition.default


def _relation_faults(
    texts: Mapping[str, str], config: ListenerConfig, features: frozenset[Feature]
) -> Iterator[str]:
    for listener in config.listeners:
        settings = ListenerSettings(listener.name, listener.protocol, texts)
        if listener.protocol.is_encrypted:
            if Feature.TLS not in features:
                yield f"Listener {listener} speaks TLS, which is not built in yet"
            elif isinstance(tls := tls_config(settings), Refused):
                yield f"Listener {listener.name}: {tls.why}"
        if listener.protocol.has_sasl:
            if Feature.SASL not in features:
                yield f"Listener {listener} asks for SASL, which is not built in yet"
            else:
                yield from _sasl_faults(settings, texts)
    if config.inter_broker_protocol.has_sasl:
        yield from _inter_broker_faults(texts, config.listener(config.inter_broker))
    yield from _delay_fault(texts)
    if texts.get("max.connections.per.ip") == "0" and not texts.get(
        "max.connections.per.ip.overrides"
    ):
        yield (
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
            "property is set."
        )
    if not texts.get("authorizer.class.name"):
        for name in ("super.users", "allow.everyone.if.no.acl.found"):
            if name in texts:
                yield (
                    f"{name} is set without authorizer.class.name: everybody could do everything. "
                    "Set both, or neither"
                )
    yield from _encoder_fault(texts)
    yield from _zookeeper_faults(texts)


def mechanisms_of(settings: ListenerSettings) -> list[str]:
    """The mechanisms that a listener offers, in the order of its settings."""
    return split_list(settings.get("sasl.enabled.mechanisms") or "GSSAPI")


def _sasl_faults(settings: ListenerSettings, texts: Mapping[str, str]) -> Iterator[str]:
    name = settings.listener
    for mechanism in mechanisms_of(settings):
        if mechanism == "GSSAPI":
            yield (
                f"Listener {name} offers GSSAPI, and klamm has no Kerberos. Set "
                f"sasl.enabled.mechanisms to some of {', '.join(MECHANISMS)}"
            )
        elif mechanism not in _MODULES:
            yield f"Listener {name} offers {mechanism}, which is none of {', '.join(MECHANISMS)}"
        else:
            yield from _mechanism_faults(settings, mechanism, texts)


def _mechanism_faults(
    settings: ListenerSettings, mechanism: str, texts: Mapping[str, str]
) -> Iterator[str]:
    key = f"{settings.prefix}{mechanism.lower()}.sasl.jaas.config"
    text = settings.get("sasl.jaas.config", mechanism)
    if text is None:
        context = f"{settings.listener.lower()}.KafkaServer"
        yield (
            f"Could not find a 'KafkaServer' or '{context}' entry in the JAAS configuration. "
            f"Set {key}"
        )
        return
    jaas = parse_jaas(text)
    if isinstance(jaas, Refused):
        yield f"{key}: {jaas.why}"
    elif jaas.name != _MODULES[mechanism]:
        yield f"{key}: {mechanism} is served by {_MODULES[mechanism]}, not by {jaas.name}"
    elif mechanism == "OAUTHBEARER":
        yield from _oauth_faults(settings, texts)
        yield from _oauth_option_faults(key, settings, jaas)


# The options of OAUTHBEARER that decide whom to let in.
_VALIDATOR: Final = "unsecuredValidator"
_VALIDATOR_OPTIONS: Final = frozenset(
    f"{_VALIDATOR}{what}"
    for what in ("PrincipalClaimName", "ScopeClaimName", "RequiredScope", "AllowableClockSkewMs")
)


def _oauth_option_faults(key: str, settings: ListenerSettings, jaas: Jaas) -> Iterator[str]:
    """Options that read as a demand on tokens, or on who gives them, and would be none."""
    is_signed = bool(settings.get("sasl.server.callback.handler.class", "OAUTHBEARER"))
    for option in sorted(jaas.options):
        if option.startswith("ssl."):
            yield (
                f"{key}: {option} is not read. Connections to a token service trust what this "
                "system trusts; name another authority in the environment, SSL_CERT_FILE"
            )
        elif option.startswith(_VALIDATOR) and option not in _VALIDATOR_OPTIONS:
            yield f"{key}: {option} is none of {', '.join(sorted(_VALIDATOR_OPTIONS))}"
        elif option.startswith(_VALIDATOR) and is_signed:
            yield (
                f"{key}: {option} is for tokens that nobody signed. Signed ones are checked by "
                "sasl.oauthbearer.*"
            )


def _oauth_faults(settings: ListenerSettings, texts: Mapping[str, str]) -> Iterator[str]:
    handler = settings.get("sasl.server.callback.handler.class", "OAUTHBEARER")
    if handler not in OAUTH_VALIDATORS:
        if texts.get(ALLOW_UNSECURED_OAUTH, "").lower() != "true":
            yield (
                f"Listener {settings.listener} would take tokens of OAUTHBEARER that nobody "
                f"signed. Set {settings.prefix}oauthbearer.sasl.server.callback.handler.class to "
                f"{OAUTH_VALIDATORS[0]}, or {ALLOW_UNSECURED_OAUTH}=true for a test"
            )
    elif not settings.get("sasl.oauthbearer.jwks.endpoint.url", "OAUTHBEARER"):
        yield f"Listener {settings.listener}: signed tokens need sasl.oauthbearer.jwks.endpoint.url"


def _inter_broker_faults(texts: Mapping[str, str], listener: Listener) -> Iterator[str]:
    settings = ListenerSettings(listener.name, listener.protocol, texts)
    mechanism = settings.get("sasl.mechanism.inter.broker.protocol") or "GSSAPI"
    if mechanism not in mechanisms_of(settings):
        yield (
            "sasl.mechanism.inter.broker.protocol must be included in sasl.enabled.mechanisms "
            "when SASL is used for inter-broker communication"
        )
        return
    jaas = parse_jaas(settings.get("sasl.jaas.config", mechanism) or "")
    if isinstance(jaas, Jaas) and mechanism != "OAUTHBEARER":
        missing = [name for name in ("username", "password") if not jaas.option(name)]
        if missing:
            yield (
                f"Brokers log in to each other by {mechanism} on {listener.name}, but its JAAS "
                f"text has no {' and no '.join(missing)}"
            )


def _delay_fault(texts: Mapping[str, str]) -> Iterator[str]:
    delay = _int(texts, "connection.failed.authentication.delay.ms", 100)
    idle = _int(texts, "connections.max.idle.ms", 600_000)
    if delay is not None and idle is not None and 0 <= idle <= delay:
        yield (
            f"connection.failed.authentication.delay.ms={delay} should always be less than "
            f"connections.max.idle.ms={idle} to prevent failed authentication responses from "
            "timing out"
        )


def _int(texts: Mapping[str, str], name: str, default: int) -> int | None:
    try:
        return int(texts.get(name, default))
    except ValueError:
        return None  # whoever reads the setting says so


def _encoder_fault(texts: Mapping[str, str]) -> Iterator[str]:
    prefix = "password.encoder."
    bits, rounds = _int(texts, f"{prefix}key.length", 128), _int(texts, f"{prefix}iterations", 4096)
    if bits is None or rounds is None:
        return
    factory = texts.get(f"{prefix}keyfactory.algorithm") or "PBKDF2WithHmacSHA512"
    cipher = texts.get(f"{prefix}cipher.algorithm") or CBC
    if fault := settings_fault(factory, cipher, bits, rounds):
        yield fault.why


def _zookeeper_faults(texts: Mapping[str, str]) -> Iterator[str]:
    named = [
        name for name in sorted(texts) if name.startswith("zookeeper.ssl.") and name in _ZOO_STORES
    ]
    if named and texts.get("zookeeper.ssl.client.enable", "").lower() != "true":
        yield f"{named[0]} has no effect without zookeeper.ssl.client.enable=true. Set it as well"
    if isinstance(access := zookeeper_access(texts), Refused):
        yield access.why


_ZOO_STORES: Final = frozenset(
    f"zookeeper.ssl.{store}.{what}"
    for store in ("keystore", "truststore")
    for what in ("location", "password")
)


def _warnings(texts: Mapping[str, str], config: ListenerConfig) -> Iterator[str]:
    names = [listener.name for listener in config.listeners]
    for name in sorted(texts):
        setting = SECURITY_SETTINGS.get(setting_of(name, names))
        if setting is not None and setting.effect is Effect.HARMLESS:
            yield f"{name} has no effect: {setting.why}"
        if name.startswith(PREFIX) and setting_of(name, names) == name:
            yield f"{name} has no effect as long as there is no such listener"
        if name in MECHANISM_ONLY or _is_without_mechanism(name, names):
            yield (
                f"Server config {setting_of(name, names)} should be prefixed with SASL mechanism "
                f"name, ignoring config {name}"
            )
    yield from _listener_warnings(texts, config)
    yield from doubts(texts, config)


def _is_without_mechanism(name: str, listeners: Iterable[str]) -> bool:
    return any(
        name == f"{PREFIX}{listener.lower()}.{setting}"
        for listener in listeners
        for setting in MECHANISM_ONLY
    )


def _listener_warnings(texts: Mapping[str, str], config: ListenerConfig) -> Iterator[str]:
    for listener in config.listeners:
        settings = ListenerSettings(listener.name, listener.protocol, texts)
        if listener.protocol is SecurityProtocol.SASL_PLAINTEXT:
            offered = mechanisms_of(settings)
            yield (
                f"Listener {listener.name} is not encrypted: whoever listens on the network can "
                + ("read passwords" if "PLAIN" in offered else "read and change everything")
            )
        base = texts.get(CLIENT_AUTH, "none")
        if listener.protocol is SecurityProtocol.SASL_SSL and base != "none":
            own = settings.get(CLIENT_AUTH)
            if own is None:
                yield (
                    f"{CLIENT_AUTH}={base} does not hold for {listener.name}, which is SASL_SSL: "
                    f"set {settings.prefix}{CLIENT_AUTH}"
                )
