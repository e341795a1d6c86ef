"""One line of a description of settings."""

from __future__ import annotations

from dataclasses import dataclass

from klamm.model.settings import Definition, Origin, Source


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """One setting with its value in force."""

    definition: Definition
    value: str | None
    source: Source
    read_only: bool
    origins: list[Origin]  # the value in force first, then those it hides
