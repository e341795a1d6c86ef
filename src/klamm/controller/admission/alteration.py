"""Applies a request to alter settings to those that are stored.

AlterConfigs replaces all of them; IncrementalAlterConfigs changes some, one operation each. Whether
the result is allowed is asked afterwards, of all settings together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from klamm.model.alterations import SettingOperation
from klamm.model.errors import ErrorCode, Refused
from klamm.model.settings import Definition, Kind


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a request to alter settings."""

    name: str
    value: str | None
    operation: int = SettingOperation.SET


Texts = Mapping[str, str]


def replaced(changes: Sequence[Change]) -> dict[str, str] | Refused:
    """All settings anew."""
    refused = _malformed(changes)
    return refused or {change.name: change.value or "" for change in changes}


def altered(
    stored: Texts,
    changes: Sequence[Change],
    table: Mapping[str, Definition],
    inherited: Callable[[str], str | None],
) -> dict[str, str] | Refused:
    """The stored settings with the changes made; `inherited` gives the value of an unset one."""
    refused = _malformed(changes)
    if refused is not None:
        return refused
    texts = dict(stored)
    for change in changes:
        match change.operation:
            case SettingOperation.SET:
                texts[change.name] = change.value or ""
            case SettingOperation.DELETE:
                texts.pop(change.name, None)
            case _:
                text = _edited(change, texts, table.get(change.name), inherited)
                if isinstance(text, Refused):
                    return text
                texts[change.name] = text
    return texts


def _malformed(changes: Sequence[Change]) -> Refused | None:
    names = Counter(change.name for change in changes)
    if twice := [name for name, count in names.items() if count > 1]:
        return Refused(f"Error due to duplicate config keys: {', '.join(twice)}")
    operations = frozenset(SettingOperation)
    if strange := [c for c in changes if c.operation not in operations]:
        return Refused(f"Unknown operations type {strange[0].operation} for {strange[0].name}")
    null = [c.name for c in changes if c.value is None and c.operation != SettingOperation.DELETE]
    return Refused(f"Null value not supported for : {', '.join(null)}") if null else None


def _edited(
    change: Change,
    texts: Texts,
    definition: Definition | None,
    inherited: Callable[[str], str | None],
) -> str | Refused:
    """A list with items added or taken away; it starts from the value in force."""
    if definition is None:
        # Kafka fails over this one inside, and clients know it as an unknown error.
        return Refused(f"Unknown config name: {change.name}", ErrorCode.UNKNOWN_SERVER_ERROR)
    if definition.kind is not Kind.LIST:
        verb = "append" if change.operation == SettingOperation.APPEND else "subtract"
        return Refused(
            f"Config value {verb} is not allowed for config key: {change.name}. It is no list.",
            ErrorCode.INVALID_CONFIG,
        )
    old = texts[change.name] if change.name in texts else inherited(change.name)
    items = _items(old)
    for item in _items(change.value):
        if change.operation == SettingOperation.APPEND and item not in items:
            items.append(item)
        elif change.operation == SettingOperation.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def _items(text: str | None) -> list[str]:
    return [item.strip() for item in text.split(",")] if text else []
