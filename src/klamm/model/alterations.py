"""Operations on settings, and the kinds of things that have them."""

from __future__ import annotations

from enum import IntEnum


class SettingOperation(IntEnum):
    """The operation on one setting; the numbers are the wire's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigResourceType(IntEnum):
    """The kinds of things that have settings; the numbers are the wire's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
