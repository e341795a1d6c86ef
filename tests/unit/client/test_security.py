"""Who may in: the settings of Kafka's clients, and SCRAM held to the example of its RFC."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest
import trustme

from klamm.client.errors import Distrusted
from klamm.client.security import Security, sasl, security_of
from klamm.client.security.settings import properties_of
from klamm.client.security.tls import context_of
from klamm.client.settings import parse_connection
from klamm.model.errors import UsageError
from klamm.model.scram import ScramMechanism
from klamm.pipelines.source.options import parse_read
from klamm.security.credentials.scram import ScramCredential, from_password
from klamm.security.sasl.exchange import Accepted, Challenge
from klamm.security.sasl.scram import ScramExchange

LOGIN = {"security.protocol": "SASL_SSL", "sasl.username": "ada", "sasl.password": "x"}
# The conversation that RFC 7677 gives as its example.
USER = Security(mechanism="SCRAM-SHA-256", username="user", password="pencil")
NONCE = "rOprNGfwEbeRWgbNEkqO"
BOTH = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SAID = (
    f"n,,n=user,r={NONCE}",
    f"c=biws,r={BOTH},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
)
HEARD = (
    f"r={BOTH},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)


def _talk(*answers: str, who: Security = USER) -> list[str]:
    """What is said when the broker answers so."""
    steps = sasl.scram(who, NONCE)
    said = [next(steps).decode()]
    for answer in answers:
        with suppress(StopIteration):
            said.append(steps.send(answer.encode()).decode())
    return said


def test_scram_is_that_of_the_rfc() -> None:
    assert _talk(*HEARD) == list(SAID)


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ((HEARD[0], "v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), "has not proven"),
        ((HEARD[0], "e=other-error"), "has not proven"),
        ((HEARD[0].replace(NONCE, "somebodyElse"),), "cannot be trusted"),
        ((HEARD[0].replace("4096", "1"),), "cannot be trusted"),
        (("e=unknown-user",), "cannot be trusted"),
        (("",), "cannot be trusted"),
    ],
)
def test_a_broker_that_does_not_know_the_password_is_left(
    answers: tuple[str, ...], says: str
) -> None:
    with pytest.raises(Distrusted, match=says):
        _talk(*answers)


class _OneUser:
    """Somebody with a password, for the broker's side of SCRAM."""

    def user(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        known = from_password(mechanism, "p,=ä", b"salt", 4096)
        return known if name == "a,b=c" else None

    def token(self, mechanism: ScramMechanism, token_id: str) -> None:
        return None

    def looks(self, mechanism: ScramMechanism) -> tuple[()]:
        return ()


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_scram_satisfies_the_brokers_side_and_is_satisfied_by_it(
    mechanism: ScramMechanism,
) -> None:
    broker = ScramExchange(mechanism, _OneUser(), "broker", b"decoy")
    steps = sasl.scram(Security(mechanism=mechanism.value, username="a,b=c", password="p,=ä"))
    challenge = broker.step(next(steps), 0)
    assert isinstance(challenge, Challenge)
    accepted = broker.step(steps.send(challenge.token), 0)
    assert isinstance(accepted, Accepted)
    assert accepted.principal.name == "a,b=c"
    with pytest.raises(StopIteration):
        steps.send(accepted.token)


@pytest.mark.parametrize(
    "server_first",
    [
        f"m=new,{HEARD[0]}",
        f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        f"r={BOTH},s=,i=4096",
        f"r={BOTH},s=no base64,i=4096",
        f"r={BOTH},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1000001",
        f"r={BOTH},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999999999999999",
        f"r={BOTH},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=-4096",
    ],
)
def test_a_challenge_is_bounded_and_checked(server_first: str) -> None:
    with pytest.raises(Distrusted, match="cannot be trusted"):
        _talk(server_first)
    steps = sasl.scram(USER, NONCE)
    next(steps)
    with pytest.raises(Distrusted, match="no message of it"):
        steps.send(b"\xff" if "m=" in server_first else b"r=" + b"x" * 5000)


def test_a_delegation_token_says_so() -> None:
    jaas = 'X required username="id" password="hmac" tokenauth="true";'
    found = _of(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-256", sasl_jaas_config=jaas)
    assert next(sasl.scram(found, "n")) == b"n,,n=id,r=n,tokenauth=true"


def test_names_with_signs_of_scram_in_them() -> None:
    with pytest.raises(Distrusted):
        _talk("", who=Security(mechanism="SCRAM-SHA-512", username="a=b,c", password="x"))
    who = Security(mechanism="SCRAM-SHA-512", username="a=b,c", password="x")
    assert next(sasl.scram(who, "n")) == b"n,,n=a=3Db=2Cc,r=n"


def _of(**given: str) -> Security:
    return security_of({name.replace("_", "."): v for name, v in given.items()}.get)


def test_jaas_is_understood() -> None:
    jaas = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        """username="ada" password="a \\"quoted\\" \\\\ word";"""
    )
    found = _of(security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=jaas)
    assert (found.username, found.password) == ("ada", 'a "quoted" \\ word')
    assert next(sasl.plain(found)) == b'\0ada\0a "quoted" \\ word'
    assert "quoted" not in repr(found)


def test_names_of_both_clients_mean_the_same() -> None:
    java = _of(
        security_protocol="ssl",
        ssl_truststore_type="PEM",
        ssl_truststore_location="ca.pem",
        ssl_keystore_type="PEM",
        ssl_keystore_location="me.pem",
        ssl_key_password="x",
    )
    other = _of(
        security_protocol="SSL",
        ssl_ca_location="ca.pem",
        ssl_certificate_location="me.pem",
        ssl_key_password="x",
    )
    assert java == other
    assert java.checks_name
    assert not _of(ssl_endpoint_identification_algorithm="").checks_name


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"security.protocol": "TLS"}, "'TLS' is none of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_SSL"}, "needs sasl.username and sasl.password"),
        ({"ssl.trustore.location": "ca.pem"}, r"did you mean ssl\.truststore\.location"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "cannot be honoured"),
        ({"ssl.keystore.password": "x"}, r"ssl\.key\.password opens an encrypted key"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1"}, "TLSv1 is none of"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "neither https nor none"),
        ({"enable.ssl.certificate.verification": "no"}, "neither true nor false"),
        (LOGIN | {"sasl.mechanism": "OAUTHBEARER"}, r"sasl\.oauthbearer\.token\.endpoint\.url"),
        (LOGIN | {"sasl.jaas.config": "x.Krb5LoginModule required;"}, "Kerberos cannot be had"),
        (LOGIN | {"sasl.mechanism": "GSSAPI"}, "'GSSAPI' is none of PLAIN, SCRAM-SHA-256"),
        ({"ssl.truststore.location": "t.jks"}, r"type JKS.*set ssl\.truststore\.type=PEM"),
        (
            {"ssl.keystore.location": "t.p12", "ssl.keystore.type": "PKCS12"},
            r"type PKCS12.*set ssl\.keystore\.type=PEM",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused(given: Mapping[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_connection("localhost:9092", given)
    options = {f"kafka.{name}": value for name, value in given.items()}
    with pytest.raises(UsageError, match=says):
        parse_read(
            options | {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"},
            streaming=True,
        )


@pytest.fixture(scope="module")
def certificate() -> tuple[trustme.CA, trustme.LeafCert]:
    ca = trustme.CA()
    return ca, ca.issue_cert("client.example")


def test_certificates_come_as_files_or_as_text(
    certificate: tuple[trustme.CA, trustme.LeafCert], tmp_path: Path
) -> None:
    ca, mine = certificate
    key, chain = mine.private_key_pem.bytes().decode(), mine.cert_chain_pems[0].bytes().decode()
    trusted = ca.cert_pem.bytes().decode()
    (tmp_path / "ca").write_text(trusted)
    (tmp_path / "me").write_text(f"{key}{chain}")
    for given in (
        Security(trusted=trusted, certificate=chain, key=key),
        Security(trusted=str(tmp_path / "ca"), certificate=str(tmp_path / "me")),
    ):
        names = [dict(pairs[0] for pairs in c["subject"]) for c in context_of(given).get_ca_certs()]
        assert [name["organizationName"] for name in names] == [f"trustme v{trustme.__version__}"]


@pytest.mark.parametrize("what", ["trusted", "certificate"])
def test_what_is_no_certificate_is_said(tmp_path: Path, what: str) -> None:
    path = tmp_path / "nothing.pem"
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        context_of(Security(**{what: str(path)}))  # type: ignore[arg-type]
    path.write_text("nothing")
    with pytest.raises(UsageError, match="cannot be read: that is no PEM"):
        context_of(Security(**{what: str(path)}))  # type: ignore[arg-type]


def test_pem_that_was_joined_to_one_line_is_read(
    certificate: tuple[trustme.CA, trustme.LeafCert],
) -> None:
    ca, mine = certificate
    texts = (ca.cert_pem, mine.cert_chain_pems[0], mine.private_key_pem)
    joined = [" ".join(pem.bytes().decode().split("\n")) for pem in texts]
    context = context_of(Security(trusted=joined[0], certificate=joined[1], key=joined[2]))
    assert len(context.get_ca_certs()) == 1


def test_a_file_that_was_replaced_is_read_again(
    certificate: tuple[trustme.CA, trustme.LeafCert], tmp_path: Path
) -> None:
    path = tmp_path / "ca.pem"
    certificate[0].cert_pem.write_to_path(path)
    given = Security(trusted=str(path))
    first = context_of(given)
    assert context_of(given) is first
    path.write_bytes(certificate[0].cert_pem.bytes() + trustme.CA().cert_pem.bytes())
    assert len(context_of(given).get_ca_certs()) == 2


@pytest.mark.parametrize(
    "given",
    [
        {},
        LOGIN | {"sasl.mechanism": "SCRAM-SHA-256", "ssl.ca.location": "ca.pem"},
        LOGIN | {"ssl.enabled.protocols": "TLSv1.3", "ssl.endpoint.identification.algorithm": ""},
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
            "sasl.jaas.config": 'X required clientId="me" clientSecret="s" scope="all";',
        },
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "file:///run/token",
        },
    ],
)
def test_settings_can_be_handed_on_as_text(given: Mapping[str, str]) -> None:
    found = security_of(given.get)
    assert security_of(properties_of(found).get) == found
