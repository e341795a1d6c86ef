from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from klamm.model.errors import UsageError
from klamm.secured.broker_settings import broker_settings, merged
from klamm.secured.vault import Vault, open_vault
from klamm.secured.wishes import MECHANISMS, ClusterAddresses, ListenerKind, Security
from klamm.security.settings.start import check_start

AWKWARD = 'a"b\\c=d;e,f ü'


def vault_of(data: Path, wishes: Security) -> Vault:
    return open_vault(data, wishes.passwords, ["localhost"], datetime.now(UTC), signs_tokens=True)


def place_at(host: str, port: int = 0, advertise: str | None = None) -> ClusterAddresses:
    return ClusterAddresses(host=host, port=port, brokers=3, advertise=advertise or host)


@pytest.mark.parametrize(
    "wishes",
    [
        Security(),
        Security(acls=False),
        *(Security(listeners=(kind,)) for kind in ListenerKind),
        Security(users={"alice": AWKWARD}, listeners=tuple(ListenerKind), mechanisms=MECHANISMS),
    ],
)
def test_a_start_finds_nothing_to_say(wishes: Security, tmp_path: Path) -> None:
    found = broker_settings(wishes, vault_of(tmp_path, wishes), place_at("::1"))
    checked = check_start(found)
    assert checked.refusals == ()
    overheard = "SASL_PLAINTEXT" in wishes.listeners
    assert [text for text in checked.warnings if "not encrypted" not in text] == []
    assert bool(checked.warnings) == overheard


def test_each_listener_has_ports_of_its_own(tmp_path: Path) -> None:
    wishes = Security(listeners=("SASL_SSL", "MTLS"))
    kept = vault_of(tmp_path, wishes)
    found = broker_settings(wishes, kept, place_at("127.0.0.1", 9092))
    assert found["listeners"] == "SASL_SSL://127.0.0.1:9092,MTLS://127.0.0.1:9095"
    assert found["listener.security.protocol.map"] == "SASL_SSL:SASL_SSL,MTLS:SSL"
    assert found["listener.name.mtls.ssl.client.auth"] == "required"
    assert "advertised.listeners" not in found
    everywhere = broker_settings(wishes, kept, place_at("0.0.0.0", 9092, "::5"))
    assert everywhere["advertised.listeners"] == "SASL_SSL://[::5]:0,MTLS://[::5]:0"
    assert found["super.users"] == "User:admin;User:klamm-broker"


def test_what_somebody_gives_may_not_open_what_is_locked() -> None:
    assert merged({"a": "1"}, {"b": "2"}) == {"a": "1", "b": "2"}
    assert merged({"a": "1"}, {"a": "1"}) == {"a": "1"}
    with pytest.raises(UsageError, match=r"super\.users is set by --secure"):
        merged({"super.users": "User:admin"}, {"super.users": "User:eve"})
