"""TLS of one listener as one checked value: what it shows, whom it trusts, what it speaks.

Only versions and ciphers that were asked for: where Python's TLS cannot do exactly that, the start
is refused rather than a weaker handshake allowed. Files are named here and read by the shell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from klamm.model.errors import Refused
from klamm.security.listeners.endpoints import split_list
from klamm.security.listeners.overrides import ListenerSettings
from klamm.security.secret import Secret
from klamm.security.tls import pem

VERSIONS: Final = ("TLSv1.2", "TLSv1.3")


class ClientAuth(StrEnum):
    """Whether clients show certificates."""

    NONE = "none"
    REQUESTED = "requested"  # may be absent, must not be bad
    REQUIRED = "required"


class StoreType(StrEnum):
    """The format of key and certificates."""

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile:
    """A store in a file."""

    type: StoreType
    location: str
    password: Secret | None = None
    key_password: Secret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineKey:
    """A key and its chain, in the settings themselves."""

    pem: pem.PemKey = field(repr=False)
    key_password: Secret | None = None


@dataclass(frozen=True, slots=True)
class InlineTrust:
    """Trusted certificates, in the settings themselves."""

    certificates: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """All that a handshake depends on."""

    key: StoreFile | InlineKey
    trust: StoreFile | InlineTrust | None  # None: what the machine trusts
    client_auth: ClientAuth
    versions: tuple[str, ...]
    ciphers: str | None  # OpenSSL's list for TLS 1.2; None: its own
    checks_host: bool  # of the other side, when this broker is the client
    revoked: str | None = None  # a file with the revocation lists for clients' certificates


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """All that a handshake depends on where the broker is a client of something else."""

    key: StoreFile | None  # None: nothing is shown
    trust: StoreFile | None  # None: what the machine trusts
    versions: tuple[str, ...]
    ciphers: str | None
    checks_host: bool


def client_tls(settings: ListenerSettings) -> ClientTls | Refused:
    """Reads and checks the TLS settings of a client, whose stores are files."""
    has_key = settings.get("ssl.keystore.location") or settings.get("ssl.keystore.password")
    key = _key(settings) if has_key else None
    if isinstance(key, Refused):
        return key
    trust = _trust(settings)
    if isinstance(trust, Refused):
        return trust
    spoken = _spoken(settings)
    if isinstance(spoken, Refused):
        return spoken
    assert not isinstance(key, InlineKey), "a client of something else has its key in a file"
    assert not isinstance(trust, InlineTrust), "and what it trusts, too"
    return ClientTls(
        key=key,
        trust=trust,
        versions=spoken.versions,
        ciphers=spoken.text,
        checks_host=settings.get("ssl.endpoint.identification.algorithm") != "",
    )


def tls_config(settings: ListenerSettings) -> TlsConfig | Refused:
    """Reads and checks the TLS settings of a listener."""
    key = _key(settings)
    if isinstance(key, Refused):
        return key
    trust = _trust(settings)
    if isinstance(trust, Refused):
        return trust
    auth = settings.get("ssl.client.auth") or ClientAuth.NONE.value
    if auth not in tuple(ClientAuth):
        return Refused(
            f"Invalid value {auth} for configuration ssl.client.auth: it is required, requested or "
            "none, in lower case"
        )
    spoken = _spoken(settings)
    if isinstance(spoken, Refused):
        return spoken
    revoked = settings.get(REVOKED) or None
    if revoked is not None and auth == ClientAuth.NONE:
        return Refused(f"{REVOKED} has no effect where ssl.client.auth is none: nobody is asked")
    return TlsConfig(
        revoked=revoked,
        key=key,
        trust=trust,
        client_auth=ClientAuth(auth),
        versions=spoken.versions,
        ciphers=spoken.text,
        checks_host=settings.get("ssl.endpoint.identification.algorithm") != "",
    )


def _spoken(settings: ListenerSettings) -> _Ciphers | Refused:
    versions = _versions(settings)
    if isinstance(versions, Refused):
        return versions
    algorithm = settings.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None and algorithm.lower() not in ("https", ""):
        return Refused(f"ssl.endpoint.identification.algorithm is https or empty, not {algorithm}")
    return _ciphers(split_list(settings.get("ssl.cipher.suites") or ""), versions)


def _secret(settings: ListenerSettings, name: str) -> Secret | None:
    text = settings.get(name)
    return None if text is None else Secret(text)


def _type(settings: ListenerSettings, name: str) -> StoreType | Refused:
    text = (settings.get(name) or StoreType.JKS.value).upper()
    if text not in StoreType.__members__:
        return Refused(f"{name} is PEM, PKCS12 or JKS, not {text}")
    return StoreType(text)


def _key(settings: ListenerSettings) -> StoreFile | InlineKey | Refused:
    kind = _type(settings, "ssl.keystore.type")
    if isinstance(kind, Refused):
        return kind
    location = settings.get("ssl.keystore.location")
    password = _secret(settings, "ssl.keystore.password")
    key_password = _secret(settings, "ssl.key.password")
    key = settings.get("ssl.keystore.key")
    chain = settings.get("ssl.keystore.certificate.chain")
    if key is not None or chain is not None:
        return _inline_key(kind, key, chain, location, password, key_password)
    if kind is StoreType.PEM and password is not None:
        return Refused(
            "SSL key store password cannot be specified with PEM format, only key password may be "
            "specified"
        )
    if location is None:
        if password is not None:
            return Refused("SSL key store is not specified, but key store password is specified.")
        return Refused(
            f"Listener {settings.listener} speaks TLS, but has no certificate to show. Set "
            "ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    if kind is not StoreType.PEM and password is None:
        return Refused("SSL key store is specified, but key store password is not specified.")
    return StoreFile(type=kind, location=location, password=password, key_password=key_password)


def _inline_key(
    kind: StoreType,
    key: str | None,
    chain: str | None,
    location: str | None,
    password: Secret | None,
    key_password: Secret | None,
) -> InlineKey | Refused:
    if kind is not StoreType.PEM:
        return Refused(
            f"SSL private key can be specified only for PEM, but key store type is {kind}."
        )
    if key is None:
        return Refused("SSL certificate chain is specified, but private key is not specified")
    if chain is None:
        return Refused("SSL private key is specified, but certificate chain is not specified.")
    if location is not None:
        return Refused("Both SSL key store location and separate private key are specified.")
    if password is not None:
        return Refused(
            "SSL key store password cannot be specified with PEM format, only key password may be "
            "specified"
        )
    read = pem.key_and_chain(key, chain, has_password=key_password is not None)
    return read if isinstance(read, Refused) else InlineKey(pem=read, key_password=key_password)


def _trust(settings: ListenerSettings) -> StoreFile | InlineTrust | Refused | None:
    kind = _type(settings, "ssl.truststore.type")
    if isinstance(kind, Refused):
        return kind
    location = settings.get("ssl.truststore.location")
    password = _secret(settings, "ssl.truststore.password")
    inline = settings.get("ssl.truststore.certificates")
    if inline is not None:
        if kind is not StoreType.PEM:
            return Refused(
                "SSL trust store certs can be specified only for PEM, but trust store type is "
                f"{kind}."
            )
        if location is not None:
            return Refused(
                "Both SSL trust store location and separate trust certificates are specified."
            )
    if kind is StoreType.PEM and password is not None:
        return Refused("SSL trust store password cannot be specified for PEM format.")
    if inline is not None:
        read = pem.certificates(inline)
        return read if isinstance(read, Refused) else InlineTrust(read)
    if location is None:
        if password is not None:
            return Refused(
                "SSL trust store is not specified, but trust store password is specified."
            )
        return None
    return StoreFile(type=kind, location=location, password=password)


def _versions(settings: ListenerSettings) -> tuple[str, ...] | Refused:
    enabled = split_list(settings.get("ssl.enabled.protocols") or ",".join(VERSIONS))
    strange = [name for name in enabled if name not in VERSIONS]
    if strange:
        return Refused(
            f"ssl.enabled.protocols: {strange[0]} is not spoken here, only {', '.join(VERSIONS)}. "
            "Older versions are not safe any more"
        )
    ceiling = settings.get("ssl.protocol") or VERSIONS[-1]
    if ceiling not in (*VERSIONS, "TLS"):
        return Refused(f"ssl.protocol is {', '.join(VERSIONS)} or TLS, not {ceiling}")
    highest = VERSIONS[-1] if ceiling == "TLS" else ceiling
    spoken = tuple(name for name in VERSIONS if name in enabled and name <= highest)
    if not spoken:
        return Refused(
            f"ssl.enabled.protocols={','.join(enabled)} leaves nothing under ssl.protocol={ceiling}"
        )
    return spoken


@dataclass(frozen=True, slots=True)
class _Ciphers:
    text: str | None
    versions: tuple[str, ...]


# Python cannot choose among these, so it is all or none.
_SUITES_1_3: Final = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)
REVOKED: Final = "klamm.ssl.crl.location"
_KEY_EXCHANGES: Final = {
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "ECDHE_RSA": "ECDHE-RSA-",
    "DHE_RSA": "DHE-RSA-",
    "RSA": "",
}
_CIPHERS: Final = {
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
}
# From the names of IANA, which Java uses, to those of OpenSSL.
_SUITES_1_2: Final[Mapping[str, str]] = {
    f"TLS_{exchange}_WITH_{cipher}": prefix + name
    for exchange, prefix in _KEY_EXCHANGES.items()
    for cipher, name in _CIPHERS.items()
    if (exchange, cipher) != ("RSA", "CHACHA20_POLY1305_SHA256")
    and (cipher != "AES_256_CBC_SHA384" or exchange.startswith("ECDHE"))
    and (cipher != "AES_256_CBC_SHA256" or not exchange.startswith("ECDHE"))
}


def _ciphers(suites: list[str], versions: tuple[str, ...]) -> _Ciphers | Refused:
    """OpenSSL's list, and the versions that are left: without a suite there is no version."""
    if not suites:
        return _Ciphers(None, versions)
    strange = [name for name in suites if name not in _SUITES_1_2 and name not in _SUITES_1_3]
    if strange:
        return Refused(
            f"ssl.cipher.suites: {strange[0]} is not known here. Leave the setting out, or name "
            "suites by their IANA names"
        )
    newer = _SUITES_1_3.intersection(suites)
    if newer and newer != _SUITES_1_3 and "TLSv1.3" in versions:
        missing = sorted(_SUITES_1_3 - newer)
        return Refused(
            "ssl.cipher.suites: the suites of TLSv1.3 can only be had together. Name "
            f"{', '.join(missing)} as well, or none of them"
        )
    older = [_SUITES_1_2[name] for name in suites if name in _SUITES_1_2]
    left = tuple(
        version
        for version in versions
        if (version == "TLSv1.3" and newer) or (version == "TLSv1.2" and older)
    )
    if not left:
        return Refused("ssl.cipher.suites leaves no suite for the versions that are enabled")
    return _Ciphers(":".join(older) or None, left)
