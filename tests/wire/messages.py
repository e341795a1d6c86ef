"""Random messages of any API and version, from the declarations alone."""

from __future__ import annotations

import random
import uuid
from typing import Any, Final

from klamm.model.names import ZERO_ID
from klamm.protocol import codec
from klamm.protocol.apis import APIS
from klamm.protocol.schema import WireField, wire_fields

_BITS: Final = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


def random_message(
    key: int, version: int, direction: str, dice: random.Random, *, largest: int = 2**63
) -> Any:
    """A message with only such fields set as this version carries; no number above `largest`."""
    cls = codec.message_class(key, direction)
    return _Maker(dice, version, APIS[key].is_flexible(version), largest).struct(cls)


def random_text(dice: random.Random) -> str:
    return "".join(dice.choices("abcXYZ.é-9 ", k=dice.choice((0, 1, 3, 20, 200))))


class _Maker:
    def __init__(self, dice: random.Random, version: int, flexible: bool, largest: int) -> None:
        self.dice = dice
        self.version = version
        self.flexible = flexible
        self.largest = largest

    def struct(self, cls: type) -> Any:
        values = {
            name: self.value(wire, wire.kind)
            for name, wire in wire_fields(cls)
            if self.version in wire.versions and (self.flexible or wire.tag is None)
        }
        return cls(**values)

    def value(self, wire: WireField, kind: str) -> Any:
        dice = self.dice
        may_be_null = self.version in wire.nullable and kind == wire.kind
        if may_be_null and dice.random() < 0.25:
            return None
        match kind:
            case "array":
                count = dice.choice((0, 1, 2, 3))
                return [self.value(wire, wire.element or "") for _ in range(count)]
            case "struct":
                assert wire.struct is not None
                return self.struct(wire.struct)
            case "string":
                return random_text(dice)
            case "bytes":
                return dice.randbytes(dice.choice((0, 1, 300)))
            case "uuid":
                return dice.choice((ZERO_ID, uuid.UUID(int=dice.getrandbits(128))))
            case "bool":
                return dice.random() < 0.5
            case "float64":
                return dice.uniform(-1e9, 1e9)
            case _:
                limit = min(1 << _BITS[kind], self.largest)
                return dice.choice((-1, 0, dice.randrange(-limit, limit)))
