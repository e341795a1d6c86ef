"""The name that a client gives itself in ApiVersions."""

from __future__ import annotations

import re
from typing import Final

from klamm.protocol.messages.api_versions import Request

_WORD: Final = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")
NAMED_SINCE: Final = 3


def is_named_well(version: int, request: Request) -> bool:
    """Whether name and version are words, where a client has to give them."""
    software = (request.client_software_name, request.client_software_version)
    return version < NAMED_SINCE or all(_WORD.match(word) for word in software)
