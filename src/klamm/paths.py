"""Where a user's clusters keep their data when nobody says otherwise."""

from __future__ import annotations

import os
from pathlib import Path


def default_data() -> Path:
    """`$XDG_STATE_HOME/klamm`, by the XDG rule that a relative value is no value."""
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "klamm"
