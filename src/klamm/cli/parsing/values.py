"""Turns the words of a command line into the values that its function takes."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Final

from klamm.cli.parsing.declared import Option, Param
from klamm.cli.parsing.words import ON
from klamm.model.errors import UsageError

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,30}")


def values_of(params: Sequence[Param], given: Mapping[str, list[str]]) -> dict[str, Any]:
    """The value of each parameter: as given, from the environment, or its default."""
    missing = [p for p in params if p.is_required and p.name not in given and not _from_env(p)]
    if missing:
        is_one = len(missing) == 1
        called = " and ".join(map(_called, missing))
        raise UsageError(f"{called} {'is' if is_one else 'are'} missing")
    return {param.name: _value(param, given.get(param.name)) for param in params}


def _value(param: Param, texts: list[str] | None) -> Any:
    source = param.flags[0] if param.flags else param.declared.metavar or param.name.upper()
    if texts is None:
        found = _from_env(param)
        if not found:
            return param.default
        texts, source = [found], param.envvar
    if param.is_many:
        return [_one(param, text, source) for text in texts]
    return _one(param, texts[-1], source)


def _from_env(param: Param) -> str:
    return os.environ.get(param.envvar, "") if param.envvar else ""


def _called(param: Param) -> str:
    return " ".join(filter(None, (*param.flags[:1], param.metavar)))


def _one(param: Param, text: str, source: str) -> Any:
    option = param.declared if isinstance(param.declared, Option) else Option()
    if option.parser is not None:
        return option.parser(text)
    value = _of_kind(param, text, source)
    if option.min is not None and value < option.min:
        raise UsageError(f"{source} is at least {option.min:g}, not {text}")
    if option.max is not None and value > option.max:
        raise UsageError(f"{source} is at most {option.max:,g}, not {text}")
    return value


def _of_kind(param: Param, text: str, source: str) -> Any:
    kind = param.kind
    if kind is str:
        return text
    if kind is bool:
        return text == ON
    if kind is Path:
        if not text or "\0" in text:
            raise UsageError(f"{source} takes a path, not {text!r}")
        return Path(text)
    if kind is int:
        if not _WHOLE.fullmatch(text):
            raise UsageError(f"{source} takes a whole number, not {text!r}")
        return int(text)
    if kind is float:
        return _number(text, source)
    if kind is datetime:
        return _time(text, source)
    assert issubclass(kind, Enum), f"{source}: no words are known for a {kind}"
    if text not in param.choices:
        raise UsageError(f"{source} is one of {', '.join(param.choices)}, not {text!r}")
    return kind(text)


def _number(text: str, source: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{source} takes a number, not {text!r}")
    return value


def _time(text: str, source: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{source} takes a time such as 2026-05-01T12:00:00, not {text!r}"
        ) from None
