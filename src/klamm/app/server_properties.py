"""The wishes for one broker, from a `server.properties` of Kafka's and from options.

An option counts before the file. What klamm does not know is a plug-in's or misspelt: it is told,
and refused where it looks like protection, or where somebody has just typed it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from klamm.app.faults import warn_of_openness
from klamm.client import properties
from klamm.log.disk import checkpoints
from klamm.log.disk.names import META_PROPERTIES
from klamm.model.errors import Refused, UsageError
from klamm.model.settings import BrokerSettings
from klamm.model.settings.layers import is_protecting, unknown_settings, unknown_warning
from klamm.security.listeners.config import listener_config
from klamm.security.listeners.placing import named
from klamm.start_check import heed_alone

log = logging.getLogger(__name__)

DEFAULT_PORT: Final = 9092
_BYTES_MAX: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerWishes:
    """The checked wishes for one broker."""

    settings: Mapping[str, str]
    log_dirs: tuple[str, ...]  # absolute
    id: int | None  # None: it is drawn from the store
    reserved_max: int  # drawn ids are above


def read_file(path: Path) -> dict[str, str]:
    """The entries of a file of settings; UsageError where it cannot be read."""
    try:
        if path.stat().st_size > _BYTES_MAX:
            raise UsageError(f"{path} has over {_BYTES_MAX:,} bytes: that is no file of settings")
        return properties.read(path)
    except (OSError, ValueError) as fault:
        why = f"cannot read {path}: {fault.strerror}" if isinstance(fault, OSError) else str(fault)
        raise UsageError(f"{why} (--config)") from fault


def gathered(
    file: Mapping[str, str], own: Mapping[str, str | None], typed: Mapping[str, str]
) -> dict[str, str]:
    """All settings that were given: the file's, over them those with an option of their own.

    `own` are options such as --id, by the setting they stand for; `typed` are those of -X.
    """
    options = {name: text for name, text in own.items() if text is not None}
    for name in options.keys() & typed.keys():
        if options[name] != typed[name]:
            raise UsageError(
                f"-X {name}={typed[name]} contradicts the option that says {options[name]}: leave "
                "one of them out"
            )
    unknown = _unknown(file)
    kept = {name: text for name, text in file.items() if name not in unknown}
    if "broker.id" in options:
        kept.pop("node.id", None)  # the same by another name
    return {**kept, **typed, **options}


def checked(given: Mapping[str, str], here: Path) -> BrokerWishes:
    """The wishes that these settings are; UsageError where no broker can be made of them."""
    heeded = heed_alone(given)
    if heeded.refusals:
        raise UsageError("; ".join(heeded.refusals))
    settings = BrokerSettings.parse(given)
    if heeded.idle:
        log.warning("no effect here: %s", ", ".join(heeded.idle))
    for warning in heeded.warnings:
        log.warning(warning)
    if not settings.str("zookeeper.connect").strip():
        raise UsageError(
            "a broker of its own needs a store that others can reach: name a ZooKeeper with "
            "--zookeeper HOST:PORT (zookeeper.connect), or run a whole cluster with `klamm up`"
        )
    config = listener_config(named(settings.static, "", DEFAULT_PORT, "localhost"))
    if not isinstance(config, Refused):
        warn_of_openness(config.listeners, settings)
    log_dirs = _log_dirs(settings, here)
    return BrokerWishes(
        settings={**given, "log.dirs": ",".join(log_dirs)},
        log_dirs=log_dirs,
        id=_id(settings, log_dirs),
        reserved_max=settings.int("reserved.broker.max.id"),
    )


def _unknown(file: Mapping[str, str]) -> frozenset[str]:
    """The names in a file that mean nothing here; UsageError where they look like protection."""
    unknown = frozenset(unknown_settings(file))
    for name in sorted(unknown):
        if is_protecting(name):
            raise UsageError(f"{unknown_warning(name)} Correct it, or leave it out")
    if unknown:
        log.warning(" ".join(unknown_warning(name) for name in sorted(unknown)))
    return unknown


def _log_dirs(settings: BrokerSettings, here: Path) -> tuple[str, ...]:
    static = settings.static
    named = static.get("log.dirs") or static.get("log.dir") or ""
    found = [os.path.normpath(here / part.strip()) for part in named.split(",") if part.strip()]
    if not found:
        raise UsageError("say where the broker keeps its logs: --log-dirs DIR[,DIR...] (log.dirs)")
    if len(set(found)) < len(found):
        raise UsageError(f"log.dirs names a directory twice: {named}")
    return tuple(found)


def _id(settings: BrokerSettings, log_dirs: tuple[str, ...]) -> int | None:
    """The broker's number, by the settings or by its logs; None where it is to be drawn."""
    asked = _asked_id(settings)
    found = {path: kept for path in log_dirs if (kept := _kept_id(path)) is not None}
    if len(set(found.values())) > 1:
        told = ", ".join(f"{path} is of broker {id}" for path, id in sorted(found.items()))
        raise UsageError(
            f"these log directories are not of one broker: {told}. Name those of one broker only "
            "(log.dirs)"
        )
    kept = next(iter(found.values()), None)
    if asked is not None and kept is not None and asked != kept:
        path = next(iter(found))
        raise UsageError(
            f"{path} is of broker {kept}, and this is to be broker {asked} (broker.id). Name that "
            "broker's number, or an empty directory for a new broker (log.dirs)"
        )
    if asked is None and kept is None and not settings.bool("broker.id.generation.enable"):
        raise UsageError(
            "this broker has no number, and broker.id.generation.enable is false: give it one with "
            "--id (broker.id)"
        )
    return kept if asked is None else asked


def _asked_id(settings: BrokerSettings) -> int | None:
    ids = {n: settings.int(n) for n in ("broker.id", "node.id") if settings.int(n) != -1}
    if len(set(ids.values())) > 1:
        told = " and ".join(f"{name}={id}" for name, id in ids.items())
        raise UsageError(f"{told} contradict each other: they are two names of one setting")
    asked = next(iter(ids.values()), None)
    if asked is None:
        return None
    if asked < 0:
        raise UsageError(f"broker.id is {asked}: a broker's number is 0 or more, or -1 for any")
    highest = settings.int("reserved.broker.max.id")
    if settings.bool("broker.id.generation.enable") and asked > highest:
        raise UsageError(
            f"broker.id {asked} is above reserved.broker.max.id ({highest}), where numbers are "
            "drawn. Choose a smaller one, raise that setting, or set "
            "broker.id.generation.enable=false"
        )
    return asked


def _kept_id(log_dir: str) -> int | None:
    """The broker that a log directory says it is of."""
    try:
        identity = checkpoints.read_identity(os.path.join(log_dir, META_PROPERTIES))
    except OSError:
        return None  # whoever opens the directory says what is wrong with it
    return None if identity is None else identity.broker_id
