"""A setting where nobody would read it refuses the start: all of Kafka's about security."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from klamm.model.errors import UsageError
from klamm.model.settings import BROKER_SETTINGS, BrokerSettings
from klamm.model.settings.layers import is_protecting, unknown_settings
from klamm.security.settings.start import check_start
from klamm.security.settings.table import SECURITY_SETTINGS, Effect
from klamm.start_check import heed
from unit.security.settings.test_start import LOCKED, PLAIN

MAP = "listener.security.protocol.map"
OPEN = {"listeners": "PLAINTEXT://:1"}
# They are in force without any lock on a listener, or say where there are some.
ALWAYS = (
    "authorizer.",
    "delegation.token.",
    "password.encoder.",
    "zookeeper.",
    "connection.failed",
)
LISTENING = frozenset(
    {
        "listeners", "advertised.listeners", MAP, "inter.broker.listener.name",
        "security.inter.broker.protocol", "control.plane.listener.name",
        "controller.listener.names", "early.start.listeners",
    }
)  # fmt: skip
ASKING = {
    "ssl.client.auth": "required",
    "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
    "sasl.jaas.config": PLAIN,
    "super.users": "User:b",
}
# What a listener has for itself, and some for each mechanism.
OF_A_LISTENER = ("ssl.", "sasl.", "principal.builder.class", "connections.max.reauth.ms")
OF_A_MECHANISM = (
    "sasl.jaas.config", "sasl.server.callback.handler.class", "sasl.login.", "sasl.oauthbearer.",
    "connections.max.reauth.ms", "sasl.kerberos.",
)  # fmt: skip


def asking(name: str) -> str:
    """A text that asks for something and is well formed, as far as texts have a form."""
    setting = SECURITY_SETTINGS[name]
    if name in ASKING or setting.rule is None:
        return ASKING.get(name, "something")
    rule = setting.rule
    return next(text for text in ("true", "9000", "klamm:x", "PKIX", "") if rule(text) is None)


def refusals(texts: dict[str, str]) -> str:
    """The sentences of a start with these settings, by whichever check."""
    told = list(heed(texts).refusals)
    try:
        BrokerSettings.parse(texts)
    except UsageError as fault:
        told.append(str(fault))
    return "\n".join(told)


HEEDED = [n for n, s in SECURITY_SETTINGS.items() if s.effect is not Effect.HARMLESS]


@pytest.mark.parametrize("name", [n for n in HEEDED if n not in LISTENING])
def test_an_open_cluster_takes_no_lock_for_doors_that_are_not_there(name: str) -> None:
    if not asking(name):
        return  # a class of Java's, of which there are none
    is_taken = name.startswith(ALWAYS) and SECURITY_SETTINGS[name].effect is Effect.IN_FORCE
    assert is_taken or name in refusals({**OPEN, name: asking(name)})


@pytest.mark.parametrize("name", SECURITY_SETTINGS)
def test_nothing_of_the_whole_broker_is_taken_for_a_listener(name: str) -> None:
    prefixed = f"listener.name.sasl_ssl.{name}"
    if not name.startswith(OF_A_LISTENER):
        assert f"{prefixed} would not be read" in refusals({**LOCKED, prefixed: asking(name)})
    open_one = f"listener.name.plaintext.{name}"
    if asking(name) and SECURITY_SETTINGS[name].effect is not Effect.HARMLESS:
        assert open_one in refusals({**OPEN, open_one: asking(name)})


@pytest.mark.parametrize("name", SECURITY_SETTINGS)
def test_nothing_of_a_listener_is_taken_for_a_mechanism(name: str) -> None:
    prefixed = f"listener.name.sasl_ssl.plain.{name}"
    if not name.startswith(OF_A_MECHANISM):
        assert f"{prefixed} would not be read" in refusals({**LOCKED, prefixed: asking(name)})


def misspelt(name: str) -> Iterator[str]:
    """The slips of a tired hand."""
    yield name[:-2] + name[-1] + name[-2] if name[-1] != name[-2] else name + "s"
    yield name.upper()
    yield name[1:]
    yield f"listner.name.sasl_ssl.{name}"


@pytest.mark.parametrize("name", [n for n in SECURITY_SETTINGS if n in BROKER_SETTINGS])
def test_a_slip_in_a_name_refuses_the_start(name: str) -> None:
    for wrong in misspelt(name):
        # On the command line whatever is unknown is refused, in a file what looks like protection.
        assert unknown_settings({wrong: "x"})
        assert is_protecting(wrong) or heed({**LOCKED, wrong: "x"}).refusals
    for prefix in ("listener.name.sasl_ssl.", "listener.name.sasl_ssl.plain."):
        under = f"{prefix}{name}s"
        assert under in "".join(heed({**LOCKED, under: "x"}).refusals)
    elsewhere = f"listener.name.sasl-ssl.{name}"
    assert elsewhere in "".join(heed({**LOCKED, elsewhere: "x"}).refusals)


@pytest.mark.parametrize(
    "name", [n for n, s in SECURITY_SETTINGS.items() if s.rule and s.rule("") is not None]
)
def test_nothing_at_all_does_not_undo_what_the_broker_says(name: str) -> None:
    """An empty text under the prefix would lift what holds for all listeners."""
    prefixed = f"listener.name.sasl_ssl.{name}"
    assert prefixed in refusals({**LOCKED, name: asking(name), prefixed: ""})


def test_settings_of_doors_to_come_are_taken_where_they_are_announced() -> None:
    later = {
        "listeners": "PLAINTEXT://:1",
        MAP: "PLAINTEXT:PLAINTEXT,LATER:SASL_SSL",
        "listener.name.later.ssl.client.auth": "required",
        "ssl.keystore.location": "k.pem",
        "sasl.enabled.mechanisms": "PLAIN",
    }
    assert check_start(later).refusals == ()
    assert "speaks TLS" in refusals(later | {MAP: "PLAINTEXT:PLAINTEXT"})
    # A running broker has its listeners' settings before them.
    open_one = {**OPEN, "listener.name.later.ssl.client.auth": "required"}
    assert check_start(open_one, is_running=True).refusals == ()
    assert "is not there" in refusals(open_one)
