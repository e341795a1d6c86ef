"""Topics at rest: no broker takes records for them any more, and all that was taken is committed.

Settings reach brokers one by one. A topic is frozen only when every broker refuses to write to it,
so that no record comes in behind the one who froze it; and it is at rest when its leaders hold no
record that is not yet on enough replicas, for such a one may still become part of the topic.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from klamm.client.aio.admin import Admin
from klamm.client.errors import refuse
from klamm.client.requests import ConfigChange, ConfigResource
from klamm.model.alterations import ConfigResourceType, SettingOperation
from klamm.model.errors import KlammError
from klamm.model.settings.topic import FROZEN
from klamm.protocol.private import PrivateKey

Reasons = Callable[[int, Mapping[str, Any]], Iterator[str]]
_PATIENCE_S: Final = 40.0  # a follower that is gone is dropped after 30
_PAUSE_S: Final = 0.05


async def freeze(admin: Admin, names: Sequence[str]) -> None:
    """Has every broker refuse to write to topics."""
    await _change(admin, names, ConfigChange(SettingOperation.SET, FROZEN, "true"))
    await until_at_rest(admin, names)


async def unfreeze(admin: Admin, names: Sequence[str]) -> None:
    """Lets clients write to topics again."""
    await _change(admin, names, ConfigChange(SettingOperation.DELETE, FROZEN))
    await _until(admin, names, _still_frozen)


async def until_at_rest(admin: Admin, names: Sequence[str]) -> None:
    """Waits until frozen topics are at rest."""
    await _until(admin, names, _restless)


async def _change(admin: Admin, names: Sequence[str], change: ConfigChange) -> None:
    for name in names:
        for result in await admin.change_configs(
            {ConfigResource(ConfigResourceType.TOPIC, name): [change]}
        ):
            refuse(result.error_code, f"topic {name!r}", result.error_message)


async def _until(admin: Admin, names: Sequence[str], reasons: Reasons) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        answers = await admin.ask_brokers(PrivateKey.AT_REST, {"topics": list(names)})
        for broker, answer in answers.items():
            refuse(answer["error_code"], f"broker {broker}", answer.get("error_message"))
        left = [why for answer in answers.items() for why in reasons(*answer)]
        if not left:
            return
        if time.monotonic() > deadline:
            raise KlammError(f"gave up after {_PATIENCE_S:g} s: {'; '.join(left[:3])}")
        await asyncio.sleep(_PAUSE_S)


def _restless(broker: int, answer: Mapping[str, Any]) -> Iterator[str]:
    for copy in answer["partitions"]:
        where = f"broker {broker} {{}} {copy['topic']}-{copy['partition']}"
        if not copy["frozen"]:
            yield where.format("still takes records of")
        elif copy["uncommitted"]:
            yield where.format(f"has {copy['uncommitted']} records on too few replicas of")


def _still_frozen(broker: int, answer: Mapping[str, Any]) -> Iterator[str]:
    for copy in answer["partitions"]:
        if copy["frozen"]:
            yield f"broker {broker} still refuses records of {copy['topic']}-{copy['partition']}"
