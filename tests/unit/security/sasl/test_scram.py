"""SCRAM on the broker's side: RFC 7677's own example, and whoever should not get in."""

from __future__ import annotations

import base64
import hmac
from dataclasses import dataclass, field
from typing import Any

import pytest

from klamm.model import scram
from klamm.model.scram import ScramMechanism
from klamm.security.credentials.scram import Look, ScramCredential, from_password, look_of
from klamm.security.principals import Principal
from klamm.security.sasl.exchange import Accepted, Challenge, Denied
from klamm.security.sasl.scram import ScramExchange, TokenLogin, nonce_of

NOW = 1_000_000


@dataclass
class Credentials:
    users: dict[str, ScramCredential] = field(default_factory=dict)
    tokens: dict[str, TokenLogin] = field(default_factory=dict)

    def user(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        return self.users.get(name)

    def token(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin | None:
        return self.tokens.get(token_id)

    def looks(self, mechanism: ScramMechanism) -> frozenset[Look]:
        return frozenset(look_of(credential) for credential in self.users.values())


def exchange(
    held: Credentials, nonce: str = "server", mechanism: ScramMechanism = ScramMechanism.SHA_256
) -> ScramExchange:
    return ScramExchange(mechanism, held, nonce, b"decoy")


def log_in(
    one: ScramExchange,
    password: str,
    *,
    name: str = "user",
    header: str = "n,,",
    extensions: str = "",
    nonce: str | None = None,
    binding: str | None = None,
) -> Accepted | Denied:
    """A client, with the ways in which one can go wrong."""
    bare = f"n={name},r=client{extensions}"
    first = one.step(f"{header}{bare}".encode(), NOW)
    if not isinstance(first, Challenge):
        assert isinstance(first, Denied)
        return first
    told = dict(part.split("=", 1) for part in first.token.decode().split(","))
    salted = scram.salted_password(
        one.mechanism, password, base64.b64decode(told["s"]), int(told["i"])
    )
    bound = base64.b64encode((binding or header).encode()).decode()
    unproven = f"c={bound},r={nonce or told['r']}"
    message = f"{bare},{first.token.decode()},{unproven}".encode()
    proof = base64.b64encode(scram.proof(one.mechanism, salted, message)).decode()
    last = one.step(f"{unproven},p={proof}".encode(), NOW)
    assert not isinstance(last, Challenge)
    if isinstance(last, Accepted):
        key = scram.server_key(one.mechanism, salted)
        shown = scram.signature(one.mechanism, key, message)
        assert last.token == b"v=" + base64.b64encode(shown)
    return last


def held(password: str = "pencil", rounds: int = 4096, name: str = "user") -> Credentials:
    return Credentials({name: from_password(ScramMechanism.SHA_256, password, b"salt", rounds)})


def test_example_of_the_rfc() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    users = {"user": from_password(ScramMechanism.SHA_256, "pencil", salt, 4096)}
    one = exchange(Credentials(users), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert one.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", NOW) == Challenge(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert one.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        NOW,
    ) == Accepted(
        principal=Principal("User", "user"),
        token=b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    )


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_both_mechanisms(mechanism: ScramMechanism) -> None:
    users = {"user": from_password(mechanism, "grüße, = ", b"salt", 4096)}
    told = log_in(exchange(Credentials(users), mechanism=mechanism), "grüße, = ")
    assert isinstance(told, Accepted)


def test_name_with_comma_and_equals() -> None:
    told = log_in(exchange(held(name="a,b=c")), "pencil", name="a=2Cb=3Dc")
    assert isinstance(told, Accepted)
    assert told.principal.name == "a,b=c"


def test_nobody_learns_whether_a_user_exists() -> None:
    wrong = log_in(exchange(held()), "wrong")
    unknown = log_in(exchange(held()), "wrong", name="nobody")
    assert isinstance(wrong, Denied)
    assert wrong == unknown
    assert wrong.told is None
    # Nobody has a salt, too: the same on each try, of a length like another.
    salts = {exchange(held()).step(b"n,,n=nobody,r=c", NOW) for _ in range(3)}
    assert len(salts) == 1
    assert salts != {exchange(held()).step(b"n,,n=noone,r=c", NOW)}


def test_who_exists_is_not_seen_in_the_work_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    digest = hmac.digest

    def counting(*args: Any) -> bytes:
        counted.append("")
        return digest(*args)

    monkeypatch.setattr(hmac, "digest", counting)
    work = []
    for name in ("user", "nobody"):
        counted.clear()
        exchange(held()).step(f"n,,n={name},r=c".encode(), NOW)
        work.append(len(counted))
    assert work[0] == work[1] > 0


def salt_and_rounds(held: Credentials, name: str) -> tuple[bytes, int]:
    first = exchange(held).step(f"n,,n={name},r=c".encode(), NOW)
    assert isinstance(first, Challenge)
    told = dict(part.split("=", 1) for part in first.token.decode().split(","))
    return base64.b64decode(told["s"]), int(told["i"])


@pytest.mark.parametrize(
    ("salt", "rounds"), [(b"\xff" * 24, 8192), (b"\xff" * 64, 16384), (b"1a2b3c4d5e6f" * 2, 4096)]
)
def test_nobody_looks_like_somebody(salt: bytes, rounds: int) -> None:
    held = Credentials({"user": from_password(ScramMechanism.SHA_256, "pw", salt, rounds)})
    nobody = {salt_and_rounds(held, f"nobody{i}") for i in range(20)}
    assert len(nobody) == 20
    for made, count in nobody:
        assert (len(made), count) == (len(salt), rounds)
        assert made.isalnum() == salt.isalnum()
        assert made == made.lower() or not made.isalnum()


def test_one_name_looks_like_one_of_those_there_are() -> None:
    some = {
        name: from_password(ScramMechanism.SHA_256, "pw", b"s" * size, 4096)
        for name, size in (("a", 10), ("b", 20), ("c", 30))
    }
    sizes = [len(salt_and_rounds(Credentials(some), f"nobody{i}")[0]) for i in range(60)]
    assert set(sizes) == {10, 20, 30}
    # Another user of the same kind changes nobody's look.
    more = some | {"d": from_password(ScramMechanism.SHA_256, "pw", b"t" * 10, 4096)}
    assert sizes == [len(salt_and_rounds(Credentials(more), f"nobody{i}")[0]) for i in range(60)]


def test_too_few_rounds_are_nobody() -> None:
    assert isinstance(log_in(exchange(held(rounds=4095)), "pencil"), Denied)
    assert isinstance(log_in(exchange(held(rounds=20_000)), "pencil"), Accepted)


def test_authorization_id_is_the_user() -> None:
    assert isinstance(log_in(exchange(held()), "pencil", header="n,a=user,"), Accepted)
    other = log_in(exchange(held()), "pencil", header="n,a=root,")
    assert isinstance(other, Denied)
    assert other.told is not None
    assert "authorization id that is different" in other.told
    # Only who has the password is told so.
    wrong = log_in(exchange(held()), "wrong", header="n,a=root,")
    assert isinstance(wrong, Denied)
    assert wrong.told is None


def test_nonce_and_channel_binding_are_those_of_the_exchange() -> None:
    assert isinstance(log_in(exchange(held()), "pencil", nonce="evil-clientserver"), Denied)
    assert isinstance(log_in(exchange(held()), "pencil", nonce="server"), Denied)
    assert isinstance(log_in(exchange(held()), "pencil", binding="y,,"), Denied)


def test_a_client_that_says_its_own_nonce_twice_is_let_in() -> None:
    assert isinstance(log_in(exchange(held()), "pencil", nonce="clientclientserver"), Accepted)
    thrice = log_in(exchange(held()), "pencil", nonce="clientclientclientserver")
    assert isinstance(thrice, Denied)


@pytest.mark.parametrize(
    "message",
    [
        b"", b"y,,n=user,r=c", b"p=tls-unique,,n=user,r=c", b"n,,n=,r=c", b"n,,r=c",
        b"n,,n=user", b"n,,n=us=er,r=c", "n,,n=grüße,r=c".encode(), b"n,,n=user,r=" + b"c" * 20_000,
        b"\xff" * 8,
    ],
)  # fmt: skip
def test_first_message_that_makes_no_sense(message: bytes) -> None:
    assert isinstance(exchange(held()).step(message, NOW), Denied)


@pytest.mark.parametrize(
    "message", [b"", b"c=biws,r=clientserver", b"c=biws,r=clientserver,p=!", b"r=x,c=biws,p=AA=="]
)
def test_last_message_that_makes_no_sense(message: bytes) -> None:
    one = exchange(held())
    assert isinstance(one.step(b"n,,n=user,r=client", NOW), Challenge)
    assert isinstance(one.step(message, NOW), Denied)


def test_delegation_token_speaks_for_its_owner() -> None:
    credential = from_password(ScramMechanism.SHA_256, "hmac", b"salt", 4096)
    token = TokenLogin(Principal("User", "alice"), NOW + 5, credential)
    source = Credentials(tokens={"t1": token})
    told = log_in(exchange(source), "hmac", name="t1", extensions=",tokenauth=true")
    assert isinstance(told, Accepted)
    assert told.principal == Principal("User", "alice")
    assert told.principal.by_token
    assert told.ends_ms == NOW + 5
    # A token is no user, a user no token, and what has expired is neither.
    assert isinstance(log_in(exchange(source), "hmac", name="t1"), Denied)
    assert isinstance(log_in(exchange(held()), "pencil", extensions=",tokenauth=true"), Denied)
    source.tokens["t1"] = TokenLogin(Principal("User", "alice"), NOW, credential)
    gone = log_in(exchange(source), "hmac", name="t1", extensions=",tokenauth=true")
    assert isinstance(gone, Denied)


def test_nonce_has_130_bits_of_what_it_is_given() -> None:
    one, other = nonce_of(bytes(range(20))), nonce_of(bytes(range(1, 21)))
    assert len(one) == 26
    assert one != other
    assert one.isalnum()
    with pytest.raises(AssertionError):
        nonce_of(b"few")
