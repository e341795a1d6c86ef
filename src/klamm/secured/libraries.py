"""The pages that need libraries which an open cluster can do without."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

from klamm.installing import install_command
from klamm.model.errors import UsageError

if TYPE_CHECKING:
    from klamm.secured.authority import Authority, Pair
    from klamm.secured.issuer import Issuer

__all__ = ["Authority", "Issuer", "Pair", "authority", "issuer"]


def authority() -> ModuleType:
    """The page that makes certificates."""
    try:
        from klamm.secured import authority as page
    except ImportError as missing:
        raise _missing("cryptography") from missing
    return page


def issuer() -> ModuleType:
    """The page that signs tokens."""
    try:
        from klamm.secured import issuer as page
    except ImportError as missing:
        raise _missing("cryptography and PyJWT") from missing
    return page


def _missing(what: str) -> UsageError:
    return UsageError(f"a secured cluster needs {what}: {install_command('secure')}")
