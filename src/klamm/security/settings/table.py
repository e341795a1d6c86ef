"""Every security setting of Kafka 3.9, and what becomes of it here.

A setting is in force, or harmless without effect, or refused; none is taken and ignored where it
would have made the cluster safer. What is in force belongs to a feature of the shell: as long as a
shell does not have the feature, it refuses to start with the setting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from klamm.model.errors import Refused
from klamm.security.principals import parse_super_users
from klamm.security.tls.mapping import parse_rules


class Feature(StrEnum):
    """A part of the shell that acts on settings."""

    LISTENERS = "listeners by name"
    TLS = "TLS"
    SASL = "SASL"
    OAUTH = "tokens of OAuth"
    AUTHORIZER = "access control lists"
    TOKENS = "delegation tokens"
    ENCODER = "encoded passwords"
    ZOOKEEPER = "a secured session with ZooKeeper"


class Effect(StrEnum):
    """The effect of a setting."""

    IN_FORCE = "in force"
    HARMLESS = "no effect"
    REFUSED = "refused"


# Why a text is not taken, or None where it is.
Rule = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySetting:
    """One setting."""

    name: str
    effect: Effect
    why: str = ""  # a setting has no effect, or is refused
    feature: Feature | None = None
    rule: Rule | None = None
    default: str = ""  # a text that asks for nothing, and is never refused


def _one_of(*words: str) -> Rule:
    return lambda text: None if text in words else f"is one of {', '.join(map(repr, words))}"


def _flag(text: str) -> str | None:
    return None if text.strip().lower() in ("true", "false") else "is true or false"


def _number(low: int) -> Rule:
    def fault(text: str) -> str | None:
        stripped = text.strip()
        is_number = len(stripped) < 20 and stripped.removeprefix("-").isdecimal()
        if is_number and int(stripped) >= low:
            return None
        return f"is a whole number of at least {low}"

    return fault


def _refusal(parse: Callable[[str], object]) -> Rule:
    def fault(text: str) -> str | None:
        told = parse(text)
        return f"is refused: {told.why}" if isinstance(told, Refused) else None

    return fault


_JAVA_CLASS: Final = "names a class of Java's, and klamm is no Java. Leave it out"
_KERBEROS: Final = "klamm has no Kerberos: GSSAPI is refused wherever it is enabled"
_TUNES_JAVA: Final = "chooses among Java's implementations of the same thing"
_BUILDER: Final = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
_ACL_AUTHORIZERS: Final = (
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
    "klamm",
)
OAUTH_VALIDATORS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
_LOGIN_HANDLERS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)


def is_acl_authorizer(text: str) -> bool:
    """Whether `authorizer.class.name` means Kafka's own lists."""
    return text in _ACL_AUTHORIZERS


def _authorizer(text: str) -> str | None:
    module, colon, function = text.partition(":")
    named = (*module.split("."), function) if colon else ("",)
    if not text or is_acl_authorizer(text) or all(part.isidentifier() for part in named):
        return None
    return (
        "is kafka.security.authorizer.AclAuthorizer, or module:function of a Python callable; "
        "klamm loads no class of Java's"
    )


def _in_force(feature: Feature, **rules: Rule | None) -> dict[str, SecuritySetting]:
    return {
        name: SecuritySetting(name=name, effect=Effect.IN_FORCE, feature=feature, rule=rule)
        for name, rule in ((key.replace("_", "."), rule) for key, rule in rules.items())
    }


def _harmless(why: str, *names: str) -> dict[str, SecuritySetting]:
    return {name: SecuritySetting(name=name, effect=Effect.HARMLESS, why=why) for name in names}


def _refused(why: str, *names: str, default: str = "") -> dict[str, SecuritySetting]:
    return {
        name: SecuritySetting(name=name, effect=Effect.REFUSED, why=why, default=default)
        for name in names
    }


def _zookeeper_tls(*names: str) -> dict[str, SecuritySetting]:
    return {
        f"zookeeper.{name}": SecuritySetting(
            name=f"zookeeper.{name}", effect=Effect.IN_FORCE, feature=Feature.ZOOKEEPER
        )
        for name in names
    }


SECURITY_SETTINGS: Final[Mapping[str, SecuritySetting]] = {
    **_in_force(
        Feature.LISTENERS,
        listeners=None,
        advertised_listeners=None,
        listener_security_protocol_map=None,
        inter_broker_listener_name=None,
        security_inter_broker_protocol=None,
        control_plane_listener_name=None,
        controller_listener_names=None,
        early_start_listeners=None,
    ),
    **_in_force(
        Feature.TLS,
        ssl_protocol=None,
        ssl_enabled_protocols=None,
        ssl_cipher_suites=None,
        ssl_client_auth=_one_of("none", "requested", "required"),
        ssl_endpoint_identification_algorithm=None,
        ssl_keystore_type=None,
        ssl_keystore_location=None,
        ssl_keystore_password=None,
        ssl_keystore_key=None,
        ssl_keystore_certificate_chain=None,
        ssl_key_password=None,
        ssl_truststore_type=None,
        ssl_truststore_location=None,
        ssl_truststore_password=None,
        ssl_truststore_certificates=None,
        ssl_principal_mapping_rules=_refusal(parse_rules),
        ssl_allow_dn_changes=_flag,
        ssl_allow_san_changes=_flag,
    ),
    **_harmless(_TUNES_JAVA, "ssl.provider", "ssl.secure.random.implementation"),
    # Another algorithm could be one that trusts differently.
    "ssl.keymanager.algorithm": SecuritySetting(
        name="ssl.keymanager.algorithm",
        effect=Effect.HARMLESS,
        why=_TUNES_JAVA,
        rule=_one_of("SunX509", "NewSunX509", "PKIX"),
    ),
    "ssl.trustmanager.algorithm": SecuritySetting(
        name="ssl.trustmanager.algorithm",
        effect=Effect.HARMLESS,
        why=_TUNES_JAVA,
        rule=_one_of("PKIX", "SunX509", "SunPKIX"),
    ),
    **_refused(_JAVA_CLASS, "ssl.engine.factory.class", "security.providers"),
    **_refused(_JAVA_CLASS, "principal.builder.class", default=_BUILDER),
    **_in_force(
        Feature.SASL,
        sasl_enabled_mechanisms=None,
        sasl_mechanism_inter_broker_protocol=None,
        sasl_jaas_config=None,
        sasl_server_max_receive_size=_number(1),
        connection_failed_authentication_delay_ms=_number(0),
        connections_max_reauth_ms=_number(0),
    ),
    **_in_force(
        Feature.OAUTH,
        sasl_server_callback_handler_class=_one_of("", *OAUTH_VALIDATORS),
        sasl_login_callback_handler_class=_one_of("", *_LOGIN_HANDLERS),
        sasl_oauthbearer_scope_claim_name=None,
        sasl_oauthbearer_sub_claim_name=None,
        sasl_oauthbearer_token_endpoint_url=None,
        sasl_oauthbearer_jwks_endpoint_url=None,
        sasl_oauthbearer_jwks_endpoint_refresh_ms=_number(1),
        sasl_oauthbearer_jwks_endpoint_retry_backoff_ms=_number(0),
        sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms=_number(0),
        sasl_oauthbearer_clock_skew_seconds=_number(0),
        sasl_oauthbearer_expected_audience=None,
        sasl_oauthbearer_expected_issuer=None,
        sasl_oauthbearer_header_urlencode=_flag,
        sasl_login_read_timeout_ms=_number(1),
        sasl_login_retry_backoff_ms=_number(0),
        sasl_login_retry_backoff_max_ms=_number(0),
    ),
    **_refused(_JAVA_CLASS, "sasl.client.callback.handler.class", "sasl.login.class"),
    **_harmless(
        "sasl.login.read.timeout.ms holds for connecting, too", "sasl.login.connect.timeout.ms"
    ),
    **_harmless(
        "klamm fetches a token whenever a broker logs in",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.buffer.seconds",
    ),
    **_harmless(
        _KERBEROS,
        "sasl.kerberos.service.name",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules",
    ),
    **_harmless("it is KRaft's", "sasl.mechanism.controller.protocol"),
    **_in_force(
        Feature.AUTHORIZER,
        authorizer_class_name=_authorizer,
        super_users=_refusal(parse_super_users),
        allow_everyone_if_no_acl_found=_flag,
    ),
    **_refused(
        "would read access control lists from another ZooKeeper, which klamm does not",
        "authorizer.zookeeper.url",
        "authorizer.zookeeper.connection.timeout.ms",
        "authorizer.zookeeper.session.timeout.ms",
        "authorizer.zookeeper.max.in.flight.requests",
    ),
    **_in_force(
        Feature.TOKENS,
        delegation_token_master_key=None,
        delegation_token_secret_key=None,
        delegation_token_max_lifetime_ms=_number(1),
        delegation_token_expiry_time_ms=_number(1),
        delegation_token_expiry_check_interval_ms=_number(1),
    ),
    **_in_force(
        Feature.ENCODER,
        password_encoder_secret=None,
        password_encoder_old_secret=None,
        password_encoder_keyfactory_algorithm=None,
        password_encoder_cipher_algorithm=None,
        password_encoder_key_length=_number(8),
        password_encoder_iterations=_number(1024),
    ),
    **_in_force(
        Feature.ZOOKEEPER,
        zookeeper_set_acl=_flag,
        zookeeper_ssl_client_enable=_flag,
    ),
    **_zookeeper_tls(
        "clientCnxnSocket",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
        "ssl.endpoint.identification.algorithm",
    ),
    **_refused(
        "asks for checks of revocation that klamm cannot do",
        "zookeeper.ssl.crl.enable",
        "zookeeper.ssl.ocsp.enable",
        default="false",
    ),
}

# Names under these are about security, and what the table does not know is refused.
SECURITY_PREFIXES: Final = (
    "ssl.",
    "sasl.",
    "security.",
    "authorizer.",
    "delegation.token.",
    "password.encoder.",
    "zookeeper.ssl.",
    "zookeeper.set.acl",
    "zookeeper.sasl.",
)
