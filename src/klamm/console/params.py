"""The parameters of addresses: what each may be, checked in one place and documented from it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from klamm.console.problems import Problem

_NUMBER: Final = re.compile(r"-?\d{1,18}")
TEXT_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One parameter of an address."""

    name: str
    about: str
    kind: str = "text"  # text, number, flag, choice, place
    default: Any = None
    least: int = 0
    most: int = 2**53 - 1
    choices: tuple[str, ...] = ()
    in_path: bool = False

    def parse(self, text: str) -> Any:
        """The value; `ValueError` says what is wrong with it."""
        if len(text) > TEXT_MAX:
            raise ValueError(f"is longer than {TEXT_MAX} characters")
        match self.kind:
            case "number":
                if not _NUMBER.fullmatch(text):
                    raise ValueError("must be a whole number")
                if not self.least <= int(text) <= self.most:
                    raise ValueError(f"must be from {self.least} to {self.most}")
                return int(text)
            case "flag":
                if text not in ("", "0", "1"):
                    raise ValueError("must be 0 or 1")
                return text == "1"
            case "choice":
                if text not in self.choices:
                    raise ValueError(f"must be one of {', '.join(self.choices)}")
                return text
            case "place":
                epoch, dot, sequence = text.partition(".")
                if not (dot and _NUMBER.fullmatch(epoch) and _NUMBER.fullmatch(sequence)):
                    raise ValueError("must be a place in the ledger, such as 14.2031")
                return int(epoch), int(sequence)
            case _:
                return text

    @property
    def schema(self) -> dict[str, Any]:
        """The same in the words of OpenAPI."""
        match self.kind:
            case "number":
                return {"type": "integer", "minimum": self.least, "maximum": self.most}
            case "flag":
                return {"type": "string", "enum": ["0", "1"]}
            case "choice":
                return {"type": "string", "enum": list(self.choices)}
            case "place":
                return {"type": "string", "pattern": r"^\d{1,18}\.\d{1,18}$"}
            case _:
                return {"type": "string", "maxLength": TEXT_MAX}


def parsed(
    params: Iterable[Param], path: Mapping[str, Any], query: Mapping[str, str]
) -> dict[str, Any]:
    """The values of all parameters; `Problem` names every one that is wrong."""
    found: dict[str, Any] = {}
    wrong: list[dict[str, str]] = []
    for param in params:
        given = path.get(param.name) if param.in_path else query.get(param.name)
        if given is None or (given == "" and param.kind != "text"):
            found[param.name] = param.default
            continue
        try:
            found[param.name] = param.parse(str(given))
        except ValueError as fault:
            wrong.append({"field": param.name, "message": str(fault)})
    if wrong:
        said = "; ".join(f"{each['field']} {each['message']}" for each in wrong)
        raise Problem(400, said, fields=wrong)
    return found
