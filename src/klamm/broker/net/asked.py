"""Checks private requests: JSON may contain anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from klamm.model.errors import ErrorCode, RequestRefused

_NUMBER_MAX: Final = 2**63 - 1
_TOLD_MAX: Final = 60


def text(request: Mapping[str, Any], name: str, default: str = "") -> str:
    """A text of the request."""
    value = request.get(name, default)
    if not isinstance(value, str):
        raise _refusal(name, "a text", value)
    return value


def number(request: Mapping[str, Any], name: str, default: int) -> int:
    """A number of the request, as large as the protocol's numbers are."""
    value = request.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _NUMBER_MAX:
        raise _refusal(name, "a whole number", value)
    return value


def texts(request: Mapping[str, Any], name: str) -> list[str]:
    """A list of texts of the request; each once."""
    value = request.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _refusal(name, "a list of texts", value)
    return list(dict.fromkeys(value))


def _refusal(name: str, wanted: str, value: object) -> RequestRefused:
    told = repr(value)
    told = told if len(told) <= _TOLD_MAX else f"{told[:_TOLD_MAX]}..."
    return RequestRefused(ErrorCode.INVALID_REQUEST, f"{name} must be {wanted}, not {told}")
