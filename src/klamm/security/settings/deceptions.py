"""Settings that read as protection and would yield less, such as one of no listener at all.

Kafka keeps what it does not know under a listener's prefix for plug-ins, and takes a listener that
is called SSL and speaks PLAINTEXT. klamm has no plug-ins, and such a name deceives its readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from klamm.security.listeners.config import ListenerConfig
from klamm.security.listeners.endpoints import SecurityProtocol, split_list
from klamm.security.listeners.overrides import CLIENT_AUTH, ListenerSettings
from klamm.security.settings.unheard import unheard

_MAP: Final = "listener.security.protocol.map"
_OFFERED: Final = "sasl.enabled.mechanisms"
ALLOW_PLAIN: Final = "klamm.allow.plain.without.tls"
_SECRETS: Final = ("delegation.token.secret.key", "delegation.token.master.key")
_EVERYBODY: Final = frozenset({"0.0.0.0/0", "::/0"})


def deceptions(
    texts: Mapping[str, str], config: ListenerConfig, *, is_running: bool
) -> Iterator[str]:
    """The reasons why these settings are less than they say."""
    if not is_running:
        yield from unheard(texts, config)
    for listener in config.listeners:
        if listener.name in SecurityProtocol.__members__:
            said = SecurityProtocol[listener.name]
            if _is_weaker(listener.protocol, said):
                yield (
                    f"Listener {listener.name} would speak {listener.protocol.value}, by {_MAP}: "
                    "give it another name, or the protocol it is named after"
                )
    if texts.get(ALLOW_PLAIN, "true").strip().lower() == "false":
        for listener in config.listeners:
            offered = ListenerSettings(listener.name, listener.protocol, texts).get(_OFFERED)
            is_bare = listener.protocol is SecurityProtocol.SASL_PLAINTEXT
            if is_bare and "PLAIN" in split_list(offered or ""):
                yield (
                    f"Listener {listener.name} offers PLAIN without TLS, and {ALLOW_PLAIN}=false: "
                    "make it SASL_SSL, or offer another mechanism"
                )
    for name in _SECRETS:
        if name in texts and texts[name] and not texts[name].strip():
            yield f"{name} is blank: anybody could make tokens. Set a long random text"


def _is_weaker(protocol: SecurityProtocol, than: SecurityProtocol) -> bool:
    return (than.is_encrypted and not protocol.is_encrypted) or (
        than.has_sasl and not protocol.has_sasl
    )


def doubts(texts: Mapping[str, str], config: ListenerConfig) -> Iterator[str]:
    """Settings that may not mean what they say, and that Kafka takes: a warning each."""
    for user in texts.get("super.users", "").split(";"):
        kind, _, name = user.strip().partition(":")
        if name == "*":
            yield f"super.users: {user.strip()} is a user who is called *, not everybody"
        elif "," in name and ":" in name:
            yield f"super.users: {user.strip()} is one user; users are divided by semicolons"
        elif kind and kind != "User":
            yield f"super.users: {user.strip()} is none of klamm's principals, which begin User:"
    for listener in config.listeners:
        settings = ListenerSettings(listener.name, listener.protocol, texts)
        asks = (settings.get(CLIENT_AUTH) or "none") != "none"
        trusts = settings.get("ssl.truststore.location") or settings.get(
            "ssl.truststore.certificates"
        )
        if listener.protocol.is_encrypted and asks and not trusts:
            yield (
                f"Listener {listener.name} takes certificates of every authority that this system "
                "trusts: set ssl.truststore.location"
            )
    admitted = {one.strip() for one in texts.get("klamm.internal.requests.from", "").split(",")}
    if admitted & _EVERYBODY:
        yield "klamm.internal.requests.from takes everybody for a broker"
