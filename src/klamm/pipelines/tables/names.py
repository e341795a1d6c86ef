"""Names that a column can have in each format."""

from __future__ import annotations

import re
from typing import Final

from klamm.pipelines.tables.state import DAY, OWN_COLUMNS

_NAME_MAX: Final = 255
# Without column mapping Delta's columns have the names that Parquet's old writers took.
_NOT_IN_DELTA: Final = re.compile(r"[ ,;{}()\n\t=]")


def name_fault(table_format: str, name: str) -> str | None:
    """The reason why a field of this name can be no column; None if it can."""
    if not name or len(name) > _NAME_MAX or not name.isprintable():
        return "its name is empty, too long or cannot be printed"
    if name.lower() in {DAY, *OWN_COLUMNS}:
        return "klamm's own column has that name"
    if table_format == "delta" and (found := _NOT_IN_DELTA.search(name)):
        return f"Delta takes no {found[0]!r} in a name"
    return None
