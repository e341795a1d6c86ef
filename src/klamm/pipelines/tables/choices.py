"""Choices of a user for a topic that is not what it was. The command line reads them first."""

from __future__ import annotations

from enum import StrEnum


class OnLoss(StrEnum):
    """The answer when records are gone that the table has not."""

    REFUSE = "refuse"
    ACCEPT = "accept"


class OnRecreated(StrEnum):
    """The answer when another topic has the name."""

    REFUSE = "refuse"
    RESTART = "restart"
