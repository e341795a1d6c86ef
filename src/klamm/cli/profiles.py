"""Profiles: clusters under names, each with its addresses and the properties of a client.

They live in one file below the user's configuration directory, readable by that user alone. A
profile counts only where nobody named a cluster: an address from the command line or the
environment never gets a profile's properties, for these may be secrets of another cluster.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from klamm.model.errors import NotThere, UsageError

VARIABLE: Final = "KLAMM_PROFILE"
_FILE: Final = "profiles.json"


@dataclass(frozen=True, slots=True)
class Profile:
    """One cluster: where it is, and the client properties (files, or name=value)."""

    name: str
    bootstrap_server: str
    command_config: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Profiles:
    """All profiles of this user, and the one in use."""

    known: dict[str, Profile]
    current: str | None = None

    def find(self, name: str) -> Profile:
        if name not in self.known:
            raise NotThere(f"there is no profile {name!r}: klamm profile list shows them")
        return self.known[name]


def path() -> Path:
    """The file that profiles are kept in."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "klamm" / _FILE


def load() -> Profiles:
    """Reads the file; there are no profiles where there is none."""
    file = path()
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError:
        return Profiles({})
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is not JSON"
        raise UsageError(f"cannot read the profiles in {file}: {why}") from None
    try:
        known = {name: _profile(name, entry) for name, entry in found["profiles"].items()}
        return Profiles(known, found.get("current"))
    except (AttributeError, KeyError, TypeError):
        raise UsageError(
            f"{file} is not a file of profiles: mend it, or move it out of the way"
        ) from None


def save(profiles: Profiles) -> None:
    """Put the file in place in one step, for its owner alone."""
    import tempfile

    file = path()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    entries = {name: asdict(profile) for name, profile in profiles.known.items()}
    text = json.dumps({"current": profiles.current, "profiles": entries}, indent=2)
    handle, draft = tempfile.mkstemp(dir=file.parent, prefix=_FILE)
    try:
        with os.fdopen(handle, "w") as new:
            new.write(text + "\n")
        Path(draft).replace(file)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def in_use() -> Profile | None:
    """The profile that KLAMM_PROFILE or `klamm profile use` names."""
    named = os.environ.get(VARIABLE)
    profiles = load() if named or path().exists() else Profiles({})
    name = named or profiles.current
    return None if name is None else profiles.find(name)


def _profile(name: str, entry: dict[str, Any]) -> Profile:
    servers, sources = entry["bootstrap_server"], entry.get("command_config", [])
    if not isinstance(servers, str) or not all(isinstance(source, str) for source in sources):
        raise TypeError(name)
    return Profile(name, servers, tuple(sources))
