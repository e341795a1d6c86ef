"""The audit log: a line for each denial, and a count of all of them.

A caller can be denied as often as it likes, so only so many lines are written a second; the next
line tells how many were left out. The counts, by API, miss none.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import Final

from klamm.broker.net.context import RequestContext
from klamm.security.authorization.apis import APIS
from klamm.security.authorization.audit import Decision
from klamm.security.authorization.hosts import host_text
from klamm.security.authorization.needs import Need, Option
from klamm.security.authorization.rights import Right
from klamm.security.principals import Principal

# Denials are told at INFO as in Kafka, what is allowed at DEBUG, and what nobody asked at TRACE.
log: Final = logging.getLogger("klamm.authorizer")
# What super users change, whom no list binds: at INFO, apart, so that it can have its own file.
_super_log: Final = logging.getLogger("klamm.authorizer.super")
_TRACE: Final = 5
_LINES_MAX: Final = 100  # a second


class Audit:
    """The audit log of one broker."""

    def __init__(self, elapsed_ms: Callable[[], int]) -> None:
        self.denials: Counter[str] = Counter()  # by the name of the API
        self._elapsed_ms = elapsed_ms
        self._second = -1
        self._lines = 0
        self._left_out = 0

    def begin(self) -> None:
        """Have denials written where nobody has said how much is to be."""
        if log.level == logging.NOTSET:
            log.setLevel(logging.INFO)

    def allowed(self, context: RequestContext, who: Principal, need: Need, name: str) -> None:
        """Tell of what was done, where somebody wants to hear all of it."""
        if log.isEnabledFor(logging.DEBUG):
            option = need.options[-1]
            log.debug(_decision(context, who, option.right, _name(option, name), True).line)

    def overruled(self, context: RequestContext, who: Principal, need: Need, name: str) -> None:
        """Tell what a super user changes. One who may do everything may fill the log as well."""
        if _super_log.isEnabledFor(logging.INFO):
            option = need.options[-1]
            told = _decision(context, who, option.right, _name(option, name), True)
            _super_log.info(told.line)

    def denied(self, context: RequestContext, who: Principal, need: Need, name: str) -> None:
        """Tell of a denial. A quiet one is no event: another right is asked, or nobody asked."""
        loud = need.loud()
        if loud is None:
            if log.isEnabledFor(_TRACE):
                option = need.options[-1]
                told = _decision(context, who, option.right, _name(option, name), False)
                log.log(_TRACE, told.line)
            return
        self.denials[_api_name(context)] += 1
        if log.isEnabledFor(logging.INFO) and self._has_room():
            log.info(_decision(context, who, loud.right, _name(loud, name), False).line)

    def _has_room(self) -> bool:
        second = self._elapsed_ms() // 1000
        if second != self._second:
            if self._left_out:
                log.info("%d more denials were not written in the last seconds", self._left_out)
            self._second, self._lines, self._left_out = second, 0, 0
        self._lines += 1
        if self._lines > _LINES_MAX:
            self._left_out += 1
            return False
        return True


def _name(option: Option, name: str) -> str | None:
    return None if option.some else option.name_of(name)


def _api_name(context: RequestContext) -> str:
    api = APIS.get(context.header.api_key)
    return api.name if api is not None else f"api {context.header.api_key}"


def _decision(
    context: RequestContext, who: Principal, right: Right, name: str | None, allowed: bool
) -> Decision:
    return Decision(
        principal=who,
        host=host_text(context.client_host),
        right=right,
        name=name,
        api=_api_name(context),
        allowed=allowed,
        listener=context.listener,
        client_id=context.client_id or "",
    )
