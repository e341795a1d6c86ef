"""Damage to logs, as it is found when a broker opens them."""

from __future__ import annotations

import logging

from klamm.broker.parts import Parts

log = logging.getLogger(__name__)


def tell_of_damage(parts: Parts) -> None:
    """Tells what a crash or a bad disk did to logs; replicas elsewhere may make up for it."""
    for directory in parts.logs.directories:
        if directory.failure is not None:
            parts.troubles.directory_failed(directory.failure)
        for path in directory.not_logs:
            log.warning("this is no log, and is left alone", extra={"path": path})
        for partition, end in directory.missing.items():
            if parts.logs.get(partition) is None:
                log.error("a log is gone", extra={"partition": str(partition), "end": end})
    for local in parts.logs:
        if local.damage is not None:
            log.log(
                logging.ERROR if local.damage.missing else logging.WARNING,
                "a log was cut at rest" if local.damage.at_rest else "recovery cut a log",
                extra={"partition": str(local.topic_partition), **local.damage._asdict()},
            )
