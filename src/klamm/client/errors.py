"""What can go wrong on the way to a broker and back.

An answer that says no is none of these: a code for a whole request is raised as `RequestRefused`,
and codes for single topics or partitions are values in what a call returns.
"""

from __future__ import annotations

from klamm.model.errors import KlammError


class ClientError(KlammError):
    """No usable answer came."""


class ConnectionLost(ClientError):
    """The broker cannot be reached, or went away before it answered."""


class DeadlineExceeded(ClientError):
    """The time a caller gave is over; what was asked may or may not have happened."""


class VersionMismatch(ClientError):
    """The broker speaks no version of an API that we speak too."""
