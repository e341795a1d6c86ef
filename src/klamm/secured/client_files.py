"""The files that clients of a secured cluster are given, in `clients` below its data directory.

| File | For |
|---|---|
| `ca.pem` | every client: whom to trust |
| `<user>.properties` | Java's clients and tools, klamm's `--command-config` |
| `<user>.librdkafka.properties` | librdkafka: kcat `-F`, and whatever reads its properties |
| `<user>.json` | Python: the keywords of each client under its name |
| `<user>.pem`, `<user>.key`, `<user>.keystore.pem` | certificates, where listeners ask for them |

They hold passwords: only their owner may read them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from klamm.log.disk.files import make_directory, remove_files, tighten
from klamm.secured.client_settings import Login, settings_for
from klamm.secured.texts import properties
from klamm.secured.vault import write as write_file

if TYPE_CHECKING:
    from klamm.secured.authority import Pair

DIRECTORY: Final = "clients"
AUTHORITY: Final = "ca.pem"
_SUFFIXES: Final = (
    ".properties",
    ".librdkafka.properties",
    ".json",
    ".pem",
    ".key",
    ".keystore.pem",
    ".token",
)


def write_authority(directory: Path, certificate: str) -> None:
    """Writes the certificate that all clients trust."""
    make_directory(str(directory))
    tighten(str(directory))
    write_file(directory / AUTHORITY, certificate)


def write(directory: Path, user: str, login: Login) -> None:
    """Writes the files of one user."""
    write_file(directory / f"{user}.properties", properties(settings_for("java", login)))
    if login.mechanism != "OAUTHBEARER":
        plain = settings_for("confluent-kafka", login)
        lines = "".join(f"{name}={text}\n" for name, text in plain.items())
        write_file(directory / f"{user}.librdkafka.properties", lines)
        write_file(directory / f"{user}.json", json.dumps(_for_python(login), indent=2) + "\n")


def _for_python(login: Login) -> dict[str, Any]:
    """The keywords that fit into JSON. aiokafka takes TLS as an object, which is made of `ca`."""
    unready = settings_for("aiokafka", login)
    unready.pop("ssl_context", None)
    return {
        "ca": login.authority,
        "confluent-kafka": settings_for("confluent-kafka", login),
        "kafka-python": settings_for("kafka-python", login),
        "aiokafka": unready,
    }


def write_pair(directory: Path, stem: str, pair: Pair) -> dict[str, str]:
    """Writes a certificate and its key; the fields of a `Login` that name them."""
    return {
        "certificate": str(write_extra(directory, f"{stem}.pem", pair.certificate)),
        "key": str(write_extra(directory, f"{stem}.key", pair.key)),
        "store": str(write_extra(directory, f"{stem}.keystore.pem", pair.both)),
    }


def write_extra(directory: Path, name: str, text: str) -> Path:
    """Writes one more file; its path."""
    write_file(directory / name, text)
    return directory / name


def remove(directory: Path, users: Iterable[str]) -> None:
    """Removes the files of users that are no more."""
    remove_files(str(directory / f"{user}{suffix}") for user in users for suffix in _SUFFIXES)
