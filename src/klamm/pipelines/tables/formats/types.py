"""Types of Arrow as readers of tables tell them, and as our own columns have them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def plain_type(kind: Any) -> Any:
    """A type as our own columns have it; readers name parts of nested ones otherwise."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(pa.field("element", plain_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, plain_type(f.type)) for f in kind])
    return kind
