"""Whatever comes over a socket or from a file gets a verdict, never an exception."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from klamm.model.errors import Refused
from klamm.model.scram import ScramMechanism
from klamm.security.credentials.encoder import decode_password
from klamm.security.credentials.scram import decode_credential, encode_credential, from_password
from klamm.security.listeners.config import listener_config
from klamm.security.sasl.exchange import Accepted, Challenge, Denied
from klamm.security.sasl.jaas import Jaas, parse_jaas
from klamm.security.sasl.oauthbearer import OAuthExchange
from klamm.security.sasl.plain import PlainExchange
from klamm.security.sasl.scram import ScramExchange
from klamm.security.sasl.server import SaslConfig, SaslServer, State, Versions
from klamm.security.sasl.tokens import TokenRules, UnsecuredTokens
from klamm.security.secret import Secret
from klamm.security.settings.start import check_start
from klamm.security.settings.table import SECURITY_SETTINGS
from klamm.security.tls.mapping import MappingRules, parse_rules
from klamm.security.tls.names import name_text
from klamm.security.tls.pem import certificates
from klamm.store.layout import decode_acl_change, decode_acls, decode_extended_acl_change
from klamm.store.layout.tokens import decode_token, decode_token_change

USER = from_password(ScramMechanism.SHA_256, "x", b"salt", 4096)


class Users:
    def user(self, mechanism: Any, name: str) -> Any:
        return USER if name == "a" else None

    def token(self, mechanism: Any, token_id: str) -> None:
        return None

    def looks(self, mechanism: Any) -> tuple[()]:
        return ()


def scram() -> ScramExchange:
    return ScramExchange(ScramMechanism.SHA_256, Users(), "own", b"decoy")


# Bytes that look like messages of the mechanisms, and some that do not.
pieces = st.sampled_from(
    [b"n,,", b"n=a", b"r=c", b",", b"a=", b"c=biws", b"p=AAAA", b"\0", b"\x01", b"auth=Bearer ",
     b"e30.e30.", b"eyJhbGciOiJub25lIn0.e30.", b"tokenauth=true", b"=2C", b"\xff"]
)  # fmt: skip
messages = st.lists(pieces, max_size=8).map(b"".join) | st.binary(max_size=64)


@given(st.lists(messages, min_size=1, max_size=3))
def test_strangers_are_never_let_in_and_never_raise(sent: list[bytes]) -> None:
    tokens = OAuthExchange(UnsecuredTokens(TokenRules()))
    for exchange in (scram(), PlainExchange({"a": Secret("never sent")}), tokens):
        for token in sent:
            told = exchange.step(token, 0)
            assert isinstance(told, Challenge | Denied)
            if isinstance(told, Denied):
                break


events = st.one_of(
    st.tuples(st.just("versions"), st.sampled_from(list(Versions))),
    st.tuples(st.just("handshake"), st.sampled_from(["PLAIN", "OTHER"]), st.integers(0, 1)),
    st.tuples(st.just("token"), st.sampled_from([b"\0a\0x", b"\0b\0y", b"\0a\0wrong"])),
    st.tuples(st.just("other")),
    st.tuples(st.just("unreadable")),
)


@given(st.lists(st.tuples(events, st.integers(0, 3000)), max_size=12), st.sampled_from([0, 2000]))
def test_nobody_gets_through_the_states_without_a_password(
    story: list[tuple[tuple[Any, ...], int]], reauth_ms: int
) -> None:
    users = {"a": Secret("x"), "b": Secret("y")}
    server = SaslServer(
        SaslConfig({"PLAIN": lambda _: PlainExchange(users)}, reauth_ms={"PLAIN": reauth_ms})
    )
    names: list[str] = []
    now = 0
    for event, pause in story:
        now += pause
        right = event[0] == "token" and event[1] != b"\0a\0wrong"
        match event:
            case ("versions", how) if not server.expects_raw:
                step = server.versions(how)
            case ("handshake", mechanism, version) if not server.expects_raw:
                step = server.handshake(mechanism, version, now, b"")
            case ("token", token):
                raw = server.expects_raw
                step = server.raw_token(token, now) if raw else server.authenticate(token, 1, now)
            case ("other",) if not server.expects_raw:
                step = server.other()
            case _:
                step = server.unreadable()
        if step.login is not None:
            assert right
            names.append(step.login.principal.name)
        assert (server.state is State.COMPLETE) <= bool(names)
        if step.close:
            assert server.state is State.FAILED
            break
    # A connection is one somebody for all its life.
    assert len(set(names)) <= 1


@given(st.text(alphabet="Mr ;=\"'\\/*\n0aé", max_size=40) | st.text(max_size=40))
def test_texts_of_settings_are_read_or_refused(text: str) -> None:
    assert isinstance(parse_jaas(f"M required {text}"), Jaas | Refused)
    rules = parse_rules(f"RULE:{text}")
    if isinstance(rules, MappingRules):
        assert isinstance(rules.apply("CN=a,O=b"), str | Refused)
    decode_password(Secret("s"), text)
    assert decode_credential(text) is None
    certificates(text)
    listener_config({"listeners": text, "listener.security.protocol.map": text})


@given(
    st.dictionaries(
        st.sampled_from(sorted(SECURITY_SETTINGS)),
        st.text(max_size=12) | st.sampled_from(["true", "SSL://:1", "PLAIN", "5"]),
        max_size=6,
    )
)
def test_any_start_is_checked(texts: dict[str, str]) -> None:
    check_start(texts)


@given(st.binary(max_size=60))
def test_bytes_of_nodes_and_certificates_are_read_or_refused(data: bytes) -> None:
    name_text(data)
    for decode in (
        decode_acls,
        decode_acl_change,
        decode_extended_acl_change,
        decode_token,
        decode_token_change,
    ):
        decode(data)


@given(st.text(max_size=20), st.binary(min_size=1, max_size=40), st.sampled_from(ScramMechanism))
def test_credentials_come_back(password: str, salt: bytes, mechanism: ScramMechanism) -> None:
    one = from_password(mechanism, password, salt, 1)
    assert decode_credential(encode_credential(one)) == one
    assert not isinstance(scram().step(b"n,,n=a,r=c", 0), Accepted)
