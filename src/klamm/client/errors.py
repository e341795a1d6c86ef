"""Errors on the way to a broker and back.

An answer that says no is raised as `RequestRefused` where it is about a whole request; codes for
single topics or partitions are values in what a call returns.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from klamm.client.addresses import Address, text
from klamm.model.errors import ErrorCode, KlammError, RequestRefused

# The codes that say that something is not there, and what that is.
_ABSENT: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "topic ",
    ErrorCode.UNKNOWN_TOPIC_ID: "topic ",
    ErrorCode.GROUP_ID_NOT_FOUND: "group ",
}


class ClientError(KlammError):
    """No usable answer came."""


class Unreachable(ClientError):
    """No answer came now; the same request may have one in a moment."""


class ConnectionLost(Unreachable):
    """The broker cannot be reached, or went away before it answered."""

    @classmethod
    def to(cls, address: Address, why: str) -> ConnectionLost:
        """A connection ended before the answer came."""
        return cls(f"the broker at {text(address)} was lost: {why}")


class NobodyThere(ConnectionLost):
    """Nobody accepts connections at an address."""

    def __init__(self, address: Address, why: str) -> None:
        super().__init__(f"no broker answers at {text(address)}: {why}")
        self.address = address
        self.why = why

    @property
    def is_local(self) -> bool:
        """Whether the address is one of this machine alone."""
        return self.address[0] in ("localhost", "::1") or self.address[0].startswith("127.")


class DeadlineExceeded(Unreachable):
    """The time a caller gave is over; what was asked may or may not have happened."""


class VersionMismatch(ClientError):
    """The broker speaks no version of an API that we speak too."""


class Distrusted(ClientError):
    """The two sides do not agree who they are or how they speak: trying again cannot help."""


class Answered(RequestRefused):
    """A broker answered with an error that the user must act on."""

    def __init__(self, code: int, what: str, message: str | None = None) -> None:
        name = ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
        super().__init__(code_of(code), f"{what}: {name}" + (f" ({message})" if message else ""))

    @property
    def is_retriable(self) -> bool:
        """Whether the same request may be answered otherwise in a moment."""
        return self.code.is_retriable


class Declined(RequestRefused):
    """A broker said no about something; `said` is its own words alone."""

    def __init__(self, code: ErrorCode, about: object, said: str) -> None:
        is_absent = code in _ABSENT and str(about).startswith(_ABSENT[code])
        super().__init__(code, f"there is no {about}" if is_absent else about_it(about, said))
        self.said = said


def about_it(about: object, said: str) -> str:
    """Puts the subject in front of a message, unless it begins with it already."""
    return said if said.startswith(str(about)) else f"{about}: {said}"


def refuse(code: int, about: object, message: str | None = None) -> None:
    """Raises `Declined` when one of the answers in a response says no."""
    if code:
        name = code_of(code)
        raise Declined(name, about, message or name.name)


def check(code: int, what: str, message: str | None = None) -> None:
    """Raises when a broker's answer carries an error."""
    if code:
        raise Answered(code, what, message)


def code_of(number: int) -> ErrorCode:
    """The code, or UNKNOWN_SERVER_ERROR for one that this side has never heard of."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def why_not(fault: OSError) -> str:
    """The operating system's reason for a failed connection, in a few words."""
    if isinstance(fault, TimeoutError):
        return "it did not answer in time"
    if fault.errno is not None and fault.errno > 0:
        return os.strerror(fault.errno).lower()
    return (fault.strerror or str(fault) or type(fault).__name__).lower()


def nobody(faults: list[Exception]) -> ConnectionLost:
    """The one error for addresses of which none could be reached.

    Where somebody is there at all, what is wrong with the first is wrong with the others, too.
    """
    there = [str(fault) for fault in faults if not isinstance(fault, NobodyThere)]
    absent = [fault for fault in faults if isinstance(fault, NobodyThere)]
    words = "no broker can be reached: " + "; ".join(there[:1] or _by_reason(absent))
    if not there and all(fault.is_local for fault in absent):
        words += "; `klamm up` starts a cluster on this machine"
    return ConnectionLost(words)


def _by_reason(faults: list[NobodyThere]) -> list[str]:
    """Each reason once, behind the addresses it holds for."""
    places: dict[str, list[str]] = {}
    for fault in faults:
        places.setdefault(fault.why, []).append(text(fault.address))
    return [f"{', '.join(at)}: {why}" for why, at in places.items()]
