"""The words in which messages are declared.

A message is one dataclass for all versions. Each field is declared with its wire type, and where
that matters with the versions it lives in, the versions in which it may be null, and its tag:

    leader_epoch: int = int32(default=-1, versions="7+")
    replica_nodes: list[int] = array("int32")
    topics: list[Topic] | None = array(Topic, nullable="1+")

The declaration is an ordinary dataclass field; the wire facts ride along as its metadata, and
`codec` compiles a reader and a writer for each version from them.

To the type checker each word returns the field's own type, as `dataclasses.field` does.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Final

from klamm.model.names import ZERO_ID

_KEY: Final = "wire"
_LATEST: Final = 1 << 15


@dataclass(frozen=True, slots=True)
class WireField:
    """The codec's knowledge of one field."""

    kind: str  # int8 ... string, bytes, uuid, struct, array
    versions: range
    nullable: range
    tag: int | None = None
    element: str | None = None  # the kind of an array's elements, "struct" for classes
    struct: type | None = None  # the class of a struct or of an array's elements
    default: Any = None


def versions(text: str | None, *, absent: range) -> range:
    """`"7+"`, `"0-5"` or `"3"` as a range."""
    if text is None:
        return absent
    low, plus, _ = text.partition("+")
    if plus:
        return range(int(low), _LATEST)
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1)


_ALWAYS: Final = range(_LATEST)
_NEVER: Final = range(0)


def _field(
    kind: str,
    default: Any,
    versions_text: str | None,
    *,
    nullable: str | None = None,
    tag: int | None = None,
    element: str | None = None,
    struct: type | None = None,
    factory: Callable[[], Any] | None = None,
) -> Any:
    wire = WireField(
        kind,
        versions(versions_text, absent=_ALWAYS),
        versions(nullable, absent=_NEVER),
        tag,
        element,
        struct,
        default,
    )
    if factory is not None and default is not None:
        return field(default_factory=factory, metadata={_KEY: wire})
    return field(default=default, metadata={_KEY: wire})


def int8(default: int = 0, *, versions: str | None = None, tag: int | None = None) -> Any:
    return _field("int8", default, versions, tag=tag)


def int16(default: int = 0, *, versions: str | None = None, tag: int | None = None) -> Any:
    return _field("int16", default, versions, tag=tag)


def int32(default: int = 0, *, versions: str | None = None, tag: int | None = None) -> Any:
    return _field("int32", default, versions, tag=tag)


def int64(default: int = 0, *, versions: str | None = None, tag: int | None = None) -> Any:
    return _field("int64", default, versions, tag=tag)


def float64(default: float = 0.0, *, versions: str | None = None, tag: int | None = None) -> Any:
    return _field("float64", default, versions, tag=tag)


def boolean(default: bool = False, *, versions: str | None = None, tag: int | None = None) -> Any:
    return _field("bool", default, versions, tag=tag)


def uuid_(
    default: uuid.UUID = ZERO_ID, *, versions: str | None = None, tag: int | None = None
) -> Any:
    return _field("uuid", default, versions, tag=tag)


def string(
    default: str | None = "",
    *,
    nullable: str | None = None,
    versions: str | None = None,
    tag: int | None = None,
) -> Any:
    return _field("string", default, versions, nullable=nullable, tag=tag)


def octets(
    default: bytes | None = b"",
    *,
    nullable: str | None = None,
    versions: str | None = None,
    tag: int | None = None,
) -> Any:
    """Bytes, and also records: the two are the same on the wire."""
    return _field("bytes", default, versions, nullable=nullable, tag=tag)


def struct(
    cls: type,
    *,
    nullable: str | None = None,
    versions: str | None = None,
    tag: int | None = None,
) -> Any:
    """A message within a message; one that may be null starts as null."""
    if nullable is not None:
        return _field("struct", None, versions, nullable=nullable, tag=tag, struct=cls)
    return _field("struct", cls(), versions, tag=tag, struct=cls, factory=cls)


def array(
    element: str | type,
    default: tuple[()] | None = (),
    *,
    nullable: str | None = None,
    versions: str | None = None,
    tag: int | None = None,
) -> Any:
    """A list of structs, or of one primitive kind given by its name."""
    return _field(
        "array",
        default,
        versions,
        nullable=nullable,
        tag=tag,
        element=element if isinstance(element, str) else "struct",
        struct=element if isinstance(element, type) else None,
        factory=list,
    )


def wire_fields(cls: type) -> list[tuple[str, WireField]]:
    """The fields of a message class in wire order."""
    return [(f.name, f.metadata[_KEY]) for f in fields(cls)]
