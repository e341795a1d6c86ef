"""The settings of Kafka's clients for TLS and SASL, read into one frozen value.

The names are those of the Java client where its form can be read here (PEM; a keystore of Java's
own is refused with the way out of it), and librdkafka's. A client that was told to encrypt never
goes on in clear text, and no setting about security is taken and ignored.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from klamm.client.security.tokens import TokenEndpoint, TokenFile, TokenSource, source_of
from klamm.model.errors import UsageError

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
NAMES: Final = frozenset(
    {
        "enable.ssl.certificate.verification",
        "sasl.jaas.config",
        "sasl.login.callback.handler.class",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.type",
    }
)
# What only tunes Java, or a mechanism that is refused where it is asked for.
_TUNING: Final = (
    "sasl.kerberos.",
    "sasl.login.connect.",
    "sasl.login.read.",
    "sasl.login.refresh.",
    "sasl.login.retry.",
    "ssl.keymanager.",
    "ssl.trustmanager.",
    "ssl.provider",
    "ssl.secure.random.",
)
_PREFIXES: Final = ("sasl.", "ssl.", "security.", "enable.ssl.")
_PAIR: Final = re.compile(
    r"""([\w.]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))"""
)
_LOGIN_HANDLER: Final = "OAuthBearerLoginCallbackHandler"

Text = Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Everything that a connection needs to prove and to be shown. PEM: a path, or the text."""

    protocol: str = "PLAINTEXT"
    mechanism: str = "PLAIN"
    username: str = ""
    password: str = field(default="", repr=False)
    is_delegated: bool = False  # the user is a delegation token, and the password its HMAC
    token: TokenSource | None = field(default=None, repr=False)
    trusted: str | None = None
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    checks_name: bool = True
    checks_certificate: bool = True
    tls_versions: tuple[str, ...] = ()
    ciphers: str | None = None  # OpenSSL's list for TLS 1.2; None: its own

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS comes before everything else."""
        return self.protocol.endswith("SSL")

    @property
    def signs_in(self) -> bool:
        """Whether SASL comes before everything else."""
        return self.protocol.startswith("SASL")


def is_about_security(name: str) -> bool:
    """Whether a property is one that must not be ignored."""
    return name.startswith(_PREFIXES)


def check_names(names: Iterable[str]) -> None:
    """Refuses properties about security that nobody here would look at."""
    for name in names:
        if not is_about_security(name) or name in NAMES or name.startswith(_TUNING):
            continue
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        if name in ("ssl.keystore.password", "ssl.truststore.password"):
            hint = ": a PEM file has none, and ssl.key.password opens an encrypted key"
        raise UsageError(f"{name} cannot be honoured{hint}")


def security_of(text: Text) -> Security:
    """The settings, looked up by the names of Kafka's clients."""
    protocol = (text("security.protocol") or "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise UsageError(f"security.protocol: {protocol!r} is none of {', '.join(PROTOCOLS)}")
    mechanism = text("sasl.mechanism") or text("sasl.mechanisms") or "PLAIN"
    login = _Login(text)
    token = None
    if protocol.startswith("SASL"):
        if mechanism not in MECHANISMS:
            raise UsageError(f"sasl.mechanism: {mechanism!r} is none of {', '.join(MECHANISMS)}")
        token = login.token() if mechanism == "OAUTHBEARER" else None
        if token is None and not (login.username and login.password):
            raise UsageError(
                f"security.protocol={protocol} needs sasl.username and sasl.password, "
                "or sasl.jaas.config with both"
            )
    for store in ("truststore", "keystore"):
        _refuse_java(text, store)
    return Security(
        protocol=protocol,
        mechanism=mechanism,
        username=login.username,
        password=login.password,
        is_delegated=login.jaas.get("tokenauth", "").lower() == "true",
        token=token,
        trusted=_first(
            text,
            "ssl.ca.location",
            "ssl.ca.pem",
            "ssl.truststore.certificates",
            "ssl.truststore.location",
        ),
        certificate=_first(
            text,
            "ssl.certificate.location",
            "ssl.certificate.pem",
            "ssl.keystore.certificate.chain",
            "ssl.keystore.location",
        ),
        key=_first(text, "ssl.key.location", "ssl.key.pem", "ssl.keystore.key"),
        key_password=text("ssl.key.password"),
        checks_name=_is_checked(text),
        checks_certificate=_flag(text, "enable.ssl.certificate.verification"),
        tls_versions=_tls_versions(text),
    )


def properties_of(security: Security) -> dict[str, str]:
    """The properties that give this value again: for whom takes settings as text only."""
    named = {
        "security.protocol": security.protocol,
        "sasl.mechanism": security.mechanism,
        "sasl.username": security.username,
        "sasl.password": security.password,
        "ssl.ca.location": security.trusted,
        "ssl.certificate.location": security.certificate,
        "ssl.key.location": security.key,
        "ssl.key.password": security.key_password,
        "ssl.endpoint.identification.algorithm": None if security.checks_name else "none",
        "enable.ssl.certificate.verification": None if security.checks_certificate else "false",
        "ssl.enabled.protocols": ",".join(security.tls_versions),
        "sasl.jaas.config": 'ScramLoginModule required tokenauth="true";'
        if security.is_delegated
        else None,
        **_token_properties(security.token),
    }
    return {name: value for name, value in named.items() if value}


def _token_properties(token: TokenSource | None) -> Mapping[str, str]:
    match token:
        case None:
            return {}
        case TokenFile(path):
            return {"sasl.oauthbearer.token.endpoint.url": f"file://{path}"}
        case TokenEndpoint(url, client_id, client_secret, scope, _, _):
            return {
                "sasl.oauthbearer.token.endpoint.url": url,
                "sasl.oauthbearer.client.id": client_id,
                "sasl.oauthbearer.client.secret": client_secret,
                "sasl.oauthbearer.scope": scope,
            }
        case _:
            raise UsageError("a token that a program provides cannot be handed on as text")


class _Login:
    """The user and the password, or the source of tokens: from JAAS, or by names of their own."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self.jaas = parse_jaas(text("sasl.jaas.config") or "")
        self.username = text("sasl.username") or self.jaas.get("username", "")
        self.password = text("sasl.password") or self.jaas.get("password", "")

    def token(self) -> TokenSource:
        handler = self._text("sasl.login.callback.handler.class") or _LOGIN_HANDLER
        if not handler.endswith(_LOGIN_HANDLER):
            raise UsageError(f"sasl.login.callback.handler.class={handler} is a class of Java's")
        if (self._text("sasl.oauthbearer.method") or "oidc").lower() not in ("oidc", "default"):
            raise UsageError("sasl.oauthbearer.method is oidc, or left out")
        url = self._text("sasl.oauthbearer.token.endpoint.url")
        if not url:
            raise UsageError(
                "sasl.mechanism=OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url: "
                "file:///path of a token, or the https:// address that gives one"
            )
        return source_of(
            url,
            self._text("sasl.oauthbearer.client.id") or self.jaas.get("clientId", ""),
            self._text("sasl.oauthbearer.client.secret") or self.jaas.get("clientSecret", ""),
            self._text("sasl.oauthbearer.scope") or self.jaas.get("scope", ""),
        )


def parse_jaas(text: str) -> dict[str, str]:
    """The options of a line of JAAS: `module required name="value" name=value;`."""
    if "Krb5LoginModule" in text:
        raise UsageError(
            f"sasl.jaas.config: Kerberos cannot be had here, only {', '.join(MECHANISMS)}"
        )
    return {
        name: re.sub(r"\\(.)", r"\1", double or single or bare)
        for name, double, single, bare in _PAIR.findall(text)
    }


def _first(text: Text, *names: str) -> str | None:
    return next((value for name in names if (value := text(name))), None)


def _is_checked(text: Text) -> bool:
    algorithm = text("ssl.endpoint.identification.algorithm")
    if algorithm is not None and algorithm.lower() not in ("", "none", "https"):
        raise UsageError(
            f"ssl.endpoint.identification.algorithm: {algorithm!r} is neither https nor none"
        )
    return algorithm is None or algorithm.lower() == "https"


def _flag(text: Text, name: str) -> bool:
    value = (text(name) or "true").lower()
    if value not in ("true", "false"):
        raise UsageError(f"{name}: {value!r} is neither true nor false")
    return value == "true"


def _tls_versions(text: Text) -> tuple[str, ...]:
    """The versions that may be used; none means those that are safe."""
    listed = text("ssl.enabled.protocols")
    if listed is None:
        single = text("ssl.protocol")
        listed = "" if single in (None, "TLS") else f"{single},TLSv1.3"
    wanted = tuple(part.strip() for part in listed.split(",") if part.strip())
    strange = [name for name in wanted if name not in TLS_VERSIONS]
    if strange:
        raise UsageError(
            f"ssl.enabled.protocols: {', '.join(strange)} is none of {', '.join(TLS_VERSIONS)}"
        )
    return wanted


def _refuse_java(text: Text, store: str) -> None:
    location, kind = text(f"ssl.{store}.location"), text(f"ssl.{store}.type") or "JKS"
    if location is not None and kind.upper() != "PEM":
        raise UsageError(
            f"ssl.{store}.location is of the type {kind}, which is Java's own: "
            f"write it as PEM, and set ssl.{store}.type=PEM"
        )
