"""From the settings of a listener to what it offers, and to the broker's own login.

The settings have passed `settings.start`; what could still be wrong here is told all the same,
since listeners are also added at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from klamm.model.errors import Refused
from klamm.model.scram import ScramMechanism
from klamm.security.listeners.endpoints import split_list
from klamm.security.listeners.overrides import ListenerSettings
from klamm.security.sasl.exchange import Exchange
from klamm.security.sasl.jaas import Jaas, parse_jaas
from klamm.security.sasl.oauthbearer import (
    OAuthExchange,
    TokenAccepted,
    TokenRefused,
    Validator,
)
from klamm.security.sasl.plain import PlainExchange
from klamm.security.sasl.scram import ScramExchange, ScramSource, nonce_of
from klamm.security.sasl.server import Maker, SaslConfig
from klamm.security.sasl.tokens import KeySet, SignedTokens, TokenRules, UnsecuredTokens
from klamm.security.secret import Secret

_FRAME_SIZE: Final = 524_288
_UNSECURED: Final = "unsecuredValidator"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSources:
    """The sources that logins are checked against, as they are at each login."""

    scram: ScramSource
    decoy_key: bytes = field(repr=False)  # of the cluster, so that all brokers know nobody alike
    keys: Callable[[], KeySet | None]  # the public keys of the token service; None: not fetched yet
    missed: Callable[[str], None] = lambda token: None  # a token that was refused, for its key


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLogin:
    """The login of this broker to others."""

    mechanism: str
    username: str
    password: Secret


def sasl_config(settings: ListenerSettings, sources: SaslSources) -> SaslConfig | Refused:
    """The SASL offer of a listener."""
    makers: dict[str, Maker] = {}
    reauth: dict[str, int] = {}
    for mechanism in split_list(settings.get("sasl.enabled.mechanisms") or ""):
        jaas = parse_jaas(settings.get("sasl.jaas.config", mechanism) or "")
        if isinstance(jaas, Refused):
            return Refused(f"{settings.listener}, {mechanism}: {jaas.why}")
        maker = _maker(mechanism, jaas, settings, sources)
        if isinstance(maker, Refused):
            return maker
        makers[mechanism] = maker
        ms = _number(settings, "connections.max.reauth.ms", 0, mechanism)
        if isinstance(ms, Refused):
            return ms
        reauth[mechanism] = ms
    if not makers:
        return Refused(f"Listener {settings.listener} offers no mechanism of SASL")
    size = _number(settings, "sasl.server.max.receive.size", _FRAME_SIZE)
    return size if isinstance(size, Refused) else SaslConfig(makers, size, reauth)


def own_login(settings: ListenerSettings) -> OwnLogin | Refused:
    """The login of this broker on the listener between brokers, by PLAIN or SCRAM."""
    mechanism = settings.get("sasl.mechanism.inter.broker.protocol") or "GSSAPI"
    jaas = parse_jaas(settings.get("sasl.jaas.config", mechanism) or "")
    if isinstance(jaas, Refused):
        return Refused(f"{settings.listener}, {mechanism}: {jaas.why}")
    username, password = jaas.option("username"), jaas.options.get("password")
    if not username or password is None:
        return Refused(f"{settings.listener}, {mechanism}: no username and password to log in with")
    return OwnLogin(mechanism=mechanism, username=username, password=password)


def _maker(
    mechanism: str, jaas: Jaas, settings: ListenerSettings, sources: SaslSources
) -> Maker | Refused:
    if mechanism == "PLAIN":
        users = jaas.plain_users()
        return lambda entropy: PlainExchange(users)
    if mechanism in tuple(ScramMechanism):
        return _scram_maker(ScramMechanism(mechanism), sources)
    if mechanism == "OAUTHBEARER":
        validator = _validator(jaas, settings, sources)
        if isinstance(validator, Refused):
            return validator
        return lambda entropy: OAuthExchange(validator)
    return Refused(f"Listener {settings.listener} offers {mechanism}, which klamm does not have")


def _scram_maker(mechanism: ScramMechanism, sources: SaslSources) -> Maker:
    def make(entropy: bytes) -> Exchange:
        return ScramExchange(mechanism, sources.scram, nonce_of(entropy), sources.decoy_key)

    return make


def _validator(jaas: Jaas, settings: ListenerSettings, sources: SaslSources) -> Validator | Refused:
    name = "OAUTHBEARER"
    if not settings.get("sasl.server.callback.handler.class", name):
        return _unsecured(jaas)
    skew_s = _number(settings, "sasl.oauthbearer.clock.skew.seconds", 30, name)
    if isinstance(skew_s, Refused):
        return skew_s
    rules = TokenRules(
        subject_claim=settings.get("sasl.oauthbearer.sub.claim.name", name) or "sub",
        scope_claim=settings.get("sasl.oauthbearer.scope.claim.name", name) or "scope",
        audiences=tuple(split_list(settings.get("sasl.oauthbearer.expected.audience", name) or "")),
        issuer=settings.get("sasl.oauthbearer.expected.issuer", name) or None,
        skew_ms=skew_s * 1000,
    )

    def validate(token: str, now_ms: int) -> TokenAccepted | TokenRefused:
        keys = sources.keys()
        if keys is None:
            return TokenRefused("the keys of the token service are not there yet")
        told = SignedTokens(keys, rules)(token, now_ms)
        if isinstance(told, TokenRefused):
            sources.missed(token)
        return told

    return validate


def _unsecured(jaas: Jaas) -> Validator | Refused:
    def option(what: str) -> str | None:
        return jaas.option(_UNSECURED + what)

    skew = option("AllowableClockSkewMs") or "0"
    if not skew.isdecimal() or len(skew) > 12:
        return Refused(f"{_UNSECURED}AllowableClockSkewMs is a number of ms, not {skew}")
    return UnsecuredTokens(
        TokenRules(
            subject_claim=option("PrincipalClaimName") or "sub",
            scope_claim=option("ScopeClaimName") or "scope",
            required_scopes=tuple((option("RequiredScope") or "").split()),
            skew_ms=int(skew),
        )
    )


def _number(
    settings: ListenerSettings, name: str, default: int, mechanism: str | None = None
) -> int | Refused:
    text = settings.get(name, mechanism)
    if text is None:
        return default
    if not text.strip().isdecimal() or len(text) > 18:
        return Refused(f"{name} is a whole number, not {text!r}")
    return int(text)
