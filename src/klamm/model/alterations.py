"""What may be done to a setting."""

from __future__ import annotations

from enum import IntEnum


class Operation(IntEnum):
    """The operation on one setting; the numbers are the wire's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
