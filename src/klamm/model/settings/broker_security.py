"""Settings about TLS and SASL. Each can be set for one listener, and some for one mechanism.

`listener.name.<l>.<setting>` holds for one listener, `listener.name.<l>.<m>.<setting>` for one
mechanism of it, both names in lower case. One line here is `name kind default: meaning`; `-` is
Kafka's null, and `*` marks what one broker can be given while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from klamm.model.settings.definition import Definition, Dynamic, Kind

_KINDS: Final = {
    "bool": Kind.BOOLEAN,
    "str": Kind.STRING,
    "int": Kind.INT,
    "long": Kind.LONG,
    "list": Kind.LIST,
    "class": Kind.CLASS,
    "password": Kind.PASSWORD,
}

_TLS: Final = """
*ssl.keystore.type str JKS: Format of the key store: PEM, PKCS12 or JKS. A file that is obviously of another format is read as that.
*ssl.keystore.location str -: File with the listener's private key and certificate chain.
*ssl.keystore.password password -: Password of the key store file. Not used for PEM.
*ssl.key.password password -: Password of the private key, if the key itself is encrypted.
*ssl.keystore.key password -: Private key as PEM text (PKCS#8), instead of a key store file.
*ssl.keystore.certificate.chain password -: Certificate chain as PEM text, instead of a key store file.
*ssl.truststore.type str JKS: Format of the trust store: PEM, PKCS12 or JKS.
*ssl.truststore.location str -: File with the certificates of trusted certificate authorities.
*ssl.truststore.password password -: Password of the trust store file. Not used for PEM.
*ssl.truststore.certificates password -: Trusted certificates as PEM text, instead of a trust store file.
*ssl.client.auth str none: Whether clients must present a certificate: none, requested or required. For a SASL_SSL listener, set it with the listener prefix.
*ssl.enabled.protocols list TLSv1.2,TLSv1.3: TLS versions that the listener accepts.
*ssl.protocol str TLSv1.3: The newest TLS version to use.
*ssl.cipher.suites list: Allowed TLSv1.2 cipher suites by IANA name. TLSv1.3 suites cannot be chosen one by one.
*ssl.endpoint.identification.algorithm str https: Whether this broker checks the host name in other brokers' certificates: https, or empty to disable the check.
ssl.principal.mapping.rules str DEFAULT: Rules that map the distinguished name of a certificate to a principal.
ssl.allow.dn.changes bool false: Whether a new certificate of a running listener may have another distinguished name.
ssl.allow.san.changes bool false: Whether a new certificate of a running listener may drop subject alternative names.
"""  # noqa: E501

_SASL: Final = """
*sasl.enabled.mechanisms list GSSAPI: SASL mechanisms of a listener: any of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER. Kerberos (GSSAPI) is not supported.
*sasl.mechanism.inter.broker.protocol str GSSAPI: SASL mechanism that brokers use to log in to each other.
*sasl.jaas.config password -: PLAIN users, and this broker's own login. Set it with the prefix of a listener and a mechanism.
sasl.server.max.receive.size int 524288: Largest request that a client may send before it has logged in, in bytes.
connection.failed.authentication.delay.ms int 100: Delay before a failed login is answered. Repeated failures from one address are delayed up to 32 times longer.
connections.max.reauth.ms long 0: How long a login is valid before the client must log in again; 0 means without limit. Tokens expire on their own.
sasl.server.callback.handler.class class -: Kafka's validator class for signed tokens. Without it only unsecured tokens are accepted (see klamm.allow.unsecured.oauth).
sasl.login.callback.handler.class class -: Kafka's class that fetches tokens for the broker's own login. klamm uses sasl.oauthbearer.token.endpoint.url.
sasl.oauthbearer.jwks.endpoint.url str -: URL of the keys (JWKS) that tokens are signed with: https://... or file:///...
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000: How often the keys are fetched again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100: First pause before a failed fetch of the keys is retried.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000: Longest pause between two retries.
sasl.oauthbearer.expected.audience list -: Accepted audiences. If none is set, a token with an audience is refused.
sasl.oauthbearer.expected.issuer str -: Required issuer of tokens.
sasl.oauthbearer.clock.skew.seconds int 30: Tolerated difference between clocks.
sasl.oauthbearer.scope.claim.name str scope: Claim that holds the scopes of a token.
sasl.oauthbearer.sub.claim.name str sub: Claim that holds the name of the principal.
sasl.oauthbearer.token.endpoint.url str -: URL where the broker fetches tokens for its own login: https://... or file:///...
sasl.oauthbearer.header.urlencode bool false: Whether client id and secret are URL-encoded in the token request.
sasl.login.read.timeout.ms int -: How long a token or key service may take to answer; 10000 if not set.
sasl.login.retry.backoff.ms long 100: First pause before a failed token request is retried.
sasl.login.retry.backoff.max.ms long 10000: How long a failed token request is retried.
"""  # noqa: E501


def _read(lines: str) -> Iterator[Definition]:
    for line in lines.strip().splitlines():
        head, _, doc = line.partition(": ")
        name, kind, *default = head.lstrip("*").split()
        text = default[0] if default else ""
        yield Definition(
            name=name,
            kind=_KINDS[kind],
            default=None if text == "-" else text,
            doc=doc,
            dynamic=Dynamic.PER_BROKER if line.startswith("*") else Dynamic.READ_ONLY,
        )


TLS: Final[tuple[Definition, ...]] = tuple(_read(_TLS))
SASL: Final[tuple[Definition, ...]] = tuple(_read(_SASL))
