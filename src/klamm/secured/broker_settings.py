"""The settings of Kafka's that lock the brokers of a secured cluster.

They are those that anybody would write into a `server.properties`; a test holds that the check of a
start finds nothing to say about them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from klamm.model.errors import UsageError
from klamm.secured.texts import jaas
from klamm.secured.vault import AUTHORITY, BROKER_STORE, JWKS, Vault
from klamm.secured.wishes import ADMIN, BROKER, ClusterAddresses, ListenerKind, Security

_VALIDATOR: Final = (
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler"
)
# Certificates of the cluster's own authority have nothing but a name.
_MAPPING: Final = r"RULE:^CN=([A-Za-z0-9._-]+)$/$1/,DEFAULT"


def broker_settings(wishes: Security, vault: Vault, place: ClusterAddresses) -> dict[str, str]:
    """All settings, under their full names."""
    kinds = wishes.kinds
    found = {
        **_addresses(kinds, place),
        "listener.security.protocol.map": ",".join(f"{kind}:{kind.protocol}" for kind in kinds),
        "inter.broker.listener.name": kinds[0].value,
        "delegation.token.secret.key": vault.drawn["tokens"],
        "password.encoder.secret": vault.drawn["encoder"],
        # `klamm users remove` ends what the user has open, too.
        "klamm.revoked.logins.close": "true",
    }
    if wishes.acls:
        found["authorizer.class.name"] = "kafka.security.authorizer.AclAuthorizer"
        found["super.users"] = f"User:{ADMIN};User:{BROKER}"
    if any(kind.is_encrypted for kind in kinds):
        found.update(_tls(kinds, vault))
    for kind in kinds:
        if kind.has_sasl:
            found.update(_sasl(kind, wishes, vault))
    return found


def _addresses(kinds: tuple[ListenerKind, ...], place: ClusterAddresses) -> dict[str, str]:
    """A port for each listener; the brokers of one take as many, one after the other."""
    ports = [place.port and place.port + at * place.brokers for at in range(len(kinds))]
    found = {
        "listeners": ",".join(
            f"{kind}://{_bare(place.host)}:{port}" for kind, port in zip(kinds, ports, strict=True)
        )
    }
    if place.advertise != place.host:
        told = _bare(place.advertise)
        found["advertised.listeners"] = ",".join(f"{kind}://{told}:0" for kind in kinds)
    return found


def _bare(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def merged(secured: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """These settings and those that somebody gave, which may not contradict them."""
    for name, text in given.items():
        if name in secured and text != secured[name]:
            raise UsageError(
                f"{name} is set by --secure (Cluster: security=). Leave it out, or write all "
                "settings about security yourself"
            )
    return {**given, **secured}


def _tls(kinds: tuple[ListenerKind, ...], vault: Vault) -> dict[str, str]:
    found = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(vault.path(BROKER_STORE)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(vault.path(AUTHORITY)),
    }
    asked = {ListenerKind.MTLS: "required", ListenerKind.SSL: "requested"}
    for kind in kinds:
        if kind in asked:
            found[f"listener.name.{kind.lower()}.ssl.client.auth"] = asked[kind]
            found["ssl.principal.mapping.rules"] = _MAPPING
    return found


def _sasl(kind: ListenerKind, wishes: Security, vault: Vault) -> Iterator[tuple[str, str]]:
    prefix = f"listener.name.{kind.lower()}."
    yield f"{prefix}sasl.enabled.mechanisms", ",".join(wishes.mechanisms)
    if kind is wishes.kinds[0]:
        yield "sasl.mechanism.inter.broker.protocol", wishes.scram[0]
    for mechanism in wishes.mechanisms:
        under = f"{prefix}{mechanism.lower()}."
        yield f"{under}sasl.jaas.config", _jaas(mechanism, vault)
        if mechanism == "OAUTHBEARER":
            yield f"{under}sasl.server.callback.handler.class", _VALIDATOR
            yield f"{under}sasl.oauthbearer.jwks.endpoint.url", vault.path(JWKS).as_uri()
            yield f"{under}sasl.oauthbearer.expected.issuer", "klamm"
            yield f"{under}sasl.oauthbearer.expected.audience", "klamm"


def _jaas(mechanism: str, vault: Vault) -> str:
    if mechanism == "OAUTHBEARER":
        return jaas(mechanism)
    if mechanism == "PLAIN":
        return jaas(mechanism, {f"user_{name}": text for name, text in vault.passwords.items()})
    return jaas(mechanism, {"username": BROKER, "password": vault.drawn["broker"]})
