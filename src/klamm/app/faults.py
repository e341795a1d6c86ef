"""Faults that keep a cluster from starting, told in words for the user."""

from __future__ import annotations

import errno
import logging
import resource
import socket
from collections.abc import Iterable

from klamm.broker.net.door import Door, exposure
from klamm.model.brokers import PLAINTEXT
from klamm.model.errors import UsageError
from klamm.model.settings import BrokerSettings
from klamm.security.listeners.endpoints import Listener

log = logging.getLogger(__name__)

_USERS_FAULT = frozenset(
    {errno.EADDRINUSE, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}
)


def raise_file_limit() -> int:
    """As many open files as the system lets us have; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return soft  # a sandbox may forbid it; what is open at once is bounded anyway
    return hard


def check_ports(places: Iterable[Listener]) -> None:
    """Say no before anything is touched, rather than after recovering a thousand logs."""
    for place in places:
        if place.port == 0:
            continue
        with socket.socket(_family(place.host)) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((place.host, place.port))
            except OSError as error:
                raise UsageError(_port_fault(place, error)) from error


def warn_of_openness(places: Iterable[Listener], settings: BrokerSettings) -> None:
    """Tell the operator what strangers can do to brokers that listen there."""
    exposed = {place.host for place in places if place.protocol == PLAINTEXT}
    for warning in (*map(exposure, sorted(exposed)), Door(settings).warning()):
        if warning is not None:
            log.warning(warning)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _port_fault(place: Listener, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {place.port} is taken; choose another with --port, or --port 0 for free ones"
    return f"cannot listen on {place.host}:{place.port}: {error.strerror}"


def plain(error: BaseException) -> BaseException:
    """The one error that a group of failed starts is about, in words for the user."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.errno in _USERS_FAULT:
        about = f" ({error.filename})" if error.filename else ""
        return UsageError(f"cannot start: {error.strerror}{about}")
    return error
