"""Plans and actions: the two requests through which everything changes.

What is done is what was planned: the plan is asked for again, and where it is another by now
nothing is done and the new one is shown.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from klamm.console.access.roles import Role
from klamm.console.deeds import groups, jobs, machine, partitions, topics
from klamm.console.deeds.deed import Deed, Json
from klamm.console.deeds.gate import Acting
from klamm.console.problems import Problem
from klamm.console.reading.picture import Picture

DEEDS: Final[Mapping[str, Deed]] = {
    deed.kind: deed
    for deed in (
        *topics.DEEDS,
        *partitions.DEEDS,
        *groups.DEEDS,
        *jobs.DEEDS,
        *machine.DEEDS,
    )
}
_KEYS_MAX: Final = 1_000
Right = Callable[[Role], Acting]  # to do what needs a role; `Problem` where one has less


def deed_of(body: Mapping[str, Any]) -> Deed:
    """The deed that a request is about."""
    kind = body.get("kind")
    if not isinstance(kind, str) or kind not in DEEDS:
        raise Problem(400, f"kind must be one of {', '.join(DEEDS)}")
    return DEEDS[kind]


async def plan(right: Right, picture: Picture, body: Mapping[str, Any]) -> Json:
    """The plan of a deed, or the fields that it still needs."""
    deed = deed_of(body)
    acting = right(deed.role)
    given, wrong = deed.read(body)
    answer: Json = {
        "kind": deed.kind,
        "title": deed.title,
        "fields": [field.json for field in deed.fields],
        "given": given,
        "wrong": wrong,
        "plan": None,
        "digest": None,
        "twin": "" if wrong else deed.twin(given),
    }
    if not wrong:
        sheet = await deed.plan(acting, picture, given)
        answer |= {"plan": sheet.json, "digest": sheet.digest}
    return answer


async def act(right: Right, picture: Picture, body: Mapping[str, Any]) -> Json:
    """Does what was planned."""
    deed = deed_of(body)
    acting = right(deed.role)
    given, wrong = deed.read(body)
    if wrong:
        said = "; ".join(f"{each['field']} {each['message']}" for each in wrong)
        raise Problem(400, said, fields=wrong)
    sheet = await deed.plan(acting, picture, given)
    if sheet.refused:
        raise Problem(422, "; ".join(sheet.refused), twin=deed.twin(given))
    if body.get("digest") != sheet.digest:
        raise Problem(
            409,
            "the plan is another by now; look at it and confirm again",
            plan=sheet.json,
            digest=sheet.digest,
        )
    if sheet.typed is not None and body.get("typed") != sheet.typed:
        raise Problem(400, f"type {sheet.typed!r} to go on", fields=[{"field": "typed"}])
    return {
        "kind": deed.kind,
        "done": await deed.do(acting, picture, given),
        "twin": deed.twin(given),
    }


class Remembered:
    """Answers to actions by the key that a client gave, so that none is done twice."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], Json] = OrderedDict()

    def find(self, session: str, key: str | None) -> Json | None:
        """The answer that this key had."""
        return self._kept.get((session, key)) if key else None

    def keep(self, session: str, key: str | None, answer: Json) -> None:
        """Remembers an answer; the oldest go."""
        if key and len(key) <= 100:
            self._kept[session, key] = answer
            while len(self._kept) > _KEYS_MAX:
                self._kept.popitem(last=False)
