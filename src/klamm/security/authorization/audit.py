"""The line of the audit log about one decision, in Kafka's words.

Tools search for these words, so what klamm adds (listener, client) stands behind them. Names come
from strangers and are escaped, so that none of them forges a second line.
"""

from __future__ import annotations

from dataclasses import dataclass

from klamm.model.text import printable
from klamm.security.authorization.acls import PatternType
from klamm.security.authorization.rights import Right
from klamm.security.principals import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision, as the audit log tells it."""

    principal: Principal
    host: str
    right: Right
    name: str | None  # None: some resource of the type was asked for
    api: str
    allowed: bool
    count: int = 1  # how often the request uses the resource
    listener: str = ""
    client_id: str = ""

    @property
    def line(self) -> str:
        """The line."""
        if self.name is None:
            resource, count = f"{self.right.type.title}:UNKNOWN:NONE", 0
        else:
            kind = self.right.type.title
            resource, count = f"{kind}:{PatternType.LITERAL.name}:{self.name}", self.count
        told = "Allowed" if self.allowed else "Denied"
        line = (
            f"Principal = {self.principal.text} is {told} Operation = {self.right.operation.title}"
            f" from host = {self.host} on resource = {resource} for request = {self.api}"
            f" with resourceRefCount = {count}"
        )
        if self.listener:
            line += f" on listener = {self.listener} by client = {self.client_id}"
        return printable(line)
