"""Deeds about topics: create, grow, configure, freeze, delete, and what ends a deletion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from klamm.client.aio.admin import ConfigChange, ConfigResource
from klamm.client.aio.freezing import freeze, unfreeze
from klamm.client.errors import refuse
from klamm.console.access.roles import Role
from klamm.console.deeds import planning
from klamm.console.deeds.deed import Deed, Field, Given, Json, Sheet
from klamm.console.deeds.gate import Acting
from klamm.console.reading.picture import Picture
from klamm.console.showing import twins
from klamm.console.showing.formats import number, size
from klamm.model.alterations import ConfigResourceType, SettingOperation
from klamm.model.errors import ErrorCode
from klamm.protocol.messages import create_topics
from klamm.protocol.private import PrivateKey

_TOPIC: Final = Field(name="topic", label="Topic")
_SETTINGS: Final = Field(
    name="settings",
    label="Settings",
    kind="long",
    required=False,
    default="",
    about="one name=value a line",
)


def _pairs(text: str) -> dict[str, str]:
    found = {}
    for line in (text or "").splitlines():
        name, _, value = line.partition("=")
        if name.strip():
            found[name.strip()] = value.strip()
    return found


async def _plan_creation(acting: Acting, picture: Picture, given: Given) -> Sheet:
    name = given["topic"]
    sheet = Sheet(title=f"Create {name}", button=f"Create {name}")
    wish: Json = {
        "name": name,
        "partitions": given["partitions"],
        "replication_factor": given["factor"],
        "assignment": None,
        "configs": _pairs(given["settings"]),
    }
    plan = await planning.ask(acting.admin, {"kind": "create", "topics": [wish]})
    if plan is not None:
        return planning.tell(sheet, plan, is_placed=False)
    sheet.derived = True
    for result in await acting.admin.create_topics([_new(given)], validate_only=True):
        if result.error_code:
            sheet.refused.append(result.error_message or ErrorCode(result.error_code).name)
    sheet.facts = dict(given)
    return sheet


def _new(given: Given) -> create_topics.CreatableTopic:
    pairs = _pairs(given["settings"]).items()
    return create_topics.CreatableTopic(
        name=given["topic"],
        num_partitions=given["partitions"],
        replication_factor=given["factor"],
        configs=[create_topics.CreatableTopicConfig(name=n, value=v) for n, v in pairs],
    )


async def _create(acting: Acting, _: Picture, given: Given) -> str:
    for result in await acting.admin.create_topics([_new(given)]):
        refuse(result.error_code, f"topic {result.name!r}", result.error_message)
    return f"created {given['topic']}"


def _creation_twin(given: Given) -> str:
    words: list[str | int] = ["topics", "create", "-p", given["partitions"]]
    words += ["-r", given["factor"]]
    for name, value in _pairs(given["settings"]).items():
        words += ["--config", f"{name}={value}"]
    return twins.command(*words, names=(given["topic"],))


async def _plan_growth(acting: Acting, picture: Picture, given: Given) -> Sheet:
    name, total = given["topic"], given["partitions"]
    known = picture.topics.get(name)
    now = len(known.partitions) if known else 0
    sheet = Sheet(title=f"Grow {name}", button=f"Grow {name} from {now} to {total} partitions")
    sheet.warnings.append(
        "records with a key may go to another partition from now on: their order across the change "
        "is not kept"
    )
    body = {"kind": "grow", "topic": name, "partitions": total}
    plan = await planning.ask(acting.admin, body)
    if plan is not None:
        return planning.tell(sheet, plan, is_placed=False)
    sheet.derived = True
    result = await acting.admin.create_partitions(name, total, validate_only=True)
    if result.error_code:
        sheet.refused.append(result.error_message or ErrorCode(result.error_code).name)
    sheet.facts = [now, total]
    return sheet


async def _grow(acting: Acting, _: Picture, given: Given) -> str:
    result = await acting.admin.create_partitions(given["topic"], given["partitions"])
    refuse(result.error_code, f"topic {given['topic']!r}", result.error_message)
    return f"{given['topic']} has {given['partitions']} partitions"


def _changes(given: Given) -> Mapping[ConfigResource, list[ConfigChange]]:
    resource = ConfigResource(ConfigResourceType.TOPIC, given["topic"])
    steps = [
        ConfigChange(SettingOperation.SET, name, value)
        for name, value in _pairs(given["settings"]).items()
    ]
    steps += [ConfigChange(SettingOperation.DELETE, name) for name in given["unset"] or ()]
    return {resource: steps}


async def _plan_settings(acting: Acting, picture: Picture, given: Given) -> Sheet:
    name = given["topic"]
    changes = _changes(given)
    resource, steps = next(iter(changes.items()))
    sheet = Sheet(title=f"Settings of {name}", button=f"Change {len(steps)} settings of {name}")
    if not steps:
        sheet.refused.append("nothing would change")
        return sheet
    found = await acting.admin.describe_configs([resource])
    now = {entry.name: entry for entry in found[0].configs} if found else {}
    for step in steps:
        entry = now.get(step.name)
        before = "hidden" if entry and entry.is_sensitive else entry.value if entry else None
        after = "its default" if step.value is None else step.value
        sheet.steps.append({"label": step.name, "text": f"{before} → {after}"})
    for result in await acting.admin.change_configs(changes, validate_only=True):
        if result.error_code:
            sheet.refused.append(result.error_message or ErrorCode(result.error_code).name)
    sheet.facts = sheet.steps
    return sheet


async def _configure(acting: Acting, _: Picture, given: Given) -> str:
    for result in await acting.admin.change_configs(_changes(given)):
        refuse(result.error_code, f"topic {given['topic']!r}", result.error_message)
    return f"changed the settings of {given['topic']}"


def _settings_twin(given: Given) -> str:
    words: list[str | int] = ["topics", "alter"]
    for name, value in _pairs(given["settings"]).items():
        words += ["--config", f"{name}={value}"]
    for name in given["unset"] or ():
        words += ["--unset", name]
    return twins.command(*words, names=(given["topic"],))


async def _plan_freeze(acting: Acting, picture: Picture, given: Given) -> Sheet:
    name = given["topic"]
    sheet = Sheet(title=f"Freeze {name}", button=f"Freeze {name}: nobody can write to it")
    sheet.steps.append({"label": "at once", "text": f"topic {name}: created → frozen"})
    sheet.steps.append({"label": "then", "text": "producers are refused; consumers read on"})
    known = picture.topics.get(name)
    rate = picture.rate(known) if known else None
    if rate:
        sheet.warnings.append(f"{number(rate)} records a second are being written to it")
    sheet.facts = known.state if known else None
    return sheet


async def _freeze(acting: Acting, _: Picture, given: Given) -> str:
    await freeze(acting.admin, [given["topic"]])
    return f"{given['topic']} is frozen"


async def _plan_unfreeze(acting: Acting, picture: Picture, given: Given) -> Sheet:
    name = given["topic"]
    known = picture.topics.get(name)
    sheet = Sheet(title=f"Unfreeze {name}", button=f"Unfreeze {name}")
    sheet.steps.append({"label": "at once", "text": f"topic {name}: frozen → created"})
    sheet.facts = known.state if known else None
    return sheet


async def _unfreeze(acting: Acting, _: Picture, given: Given) -> str:
    await unfreeze(acting.admin, [given["topic"]])
    return f"{given['topic']} takes records again"


async def _plan_deletion(acting: Acting, picture: Picture, given: Given) -> Sheet:
    name = given["topic"]
    known = picture.topics.get(name)
    bytes_now = picture.size(known) if known else None
    count = len(known.partitions) if known else 0
    button = f"Delete {name}: {count} partitions, {size(bytes_now)}"
    sheet = Sheet(title=f"Delete {name}", button=button, typed=name)
    for group, lag in picture.readers(name):
        left = "" if not lag else f" and {number(lag)} records not read"
        sheet.warnings.append(f"group {group} has offsets here{left}")
    plan = await planning.ask(acting.admin, {"kind": "delete", "topics": [name]})
    if plan is None:
        sheet.derived = True
        sheet.steps.append({"label": "removes", "text": f"{count} partitions, {size(bytes_now)}"})
        sheet.facts = [name, count]
        return sheet
    planning.tell(sheet, plan)
    away = _away(picture, name)
    if away:
        ids = planning.listed(away)
        sheet.warnings.insert(0, f"it will halt: it waits for broker {ids}, which is away")
        sheet.button += ", will halt"
    return sheet


def _away(picture: Picture, name: str) -> list[int]:
    known = picture.topics.get(name)
    named = {broker for p in known.partitions for broker in p.replicas} if known else set()
    return sorted(named - picture.live)


async def _delete(acting: Acting, _: Picture, given: Given) -> str:
    for result in await acting.admin.delete_topics([given["topic"]], patience_ms=1):
        if result.error_code != ErrorCode.REQUEST_TIMED_OUT:
            refuse(result.error_code, f"topic {given['topic']!r}", result.error_message)
    return f"the deletion of {given['topic']} has begun"


async def _plan_forgetting(acting: Acting, picture: Picture, given: Given) -> Sheet:
    name, broker = given["topic"], given["broker"]
    known = picture.topics.get(name)
    held = sum(broker in p.replicas for p in known.partitions) if known else 0
    sheet = Sheet(
        title=f"Forget broker {broker}'s copies of {name}",
        button=f"Forget {held} copies of {name} on broker {broker}",
        typed=name,
    )
    sheet.steps.append(
        {"label": "at once", "text": f"the deletion no longer waits for broker {broker}"}
    )
    sheet.steps.append(
        {"label": "then", "text": f"broker {broker} removes its {held} copies when it is back"}
    )
    if known is None or not known.is_doomed:
        sheet.refused.append(f"{name} is not being deleted")
    elif broker in picture.live:
        sheet.refused.append(f"broker {broker} is up: it will confirm by itself")
    sheet.facts = [held, known.state if known else None]
    return sheet


async def _forget(acting: Acting, _: Picture, given: Given) -> str:
    body = {"topic": given["topic"], "broker": given["broker"]}
    await acting.admin.ask_controller(PrivateKey.FORGET_REPLICA, body)
    return f"broker {given['broker']}'s copies of {given['topic']} are given up"


async def _plan_calling_off(acting: Acting, picture: Picture, given: Given) -> Sheet:
    name = given["topic"]
    known = picture.topics.get(name)
    sheet = Sheet(title=f"Call off the deletion of {name}", button=f"Keep {name}")
    sheet.steps.append({"label": "at once", "text": f"topic {name}: halted → created"})
    if known is None or known.state != "halted":
        sheet.refused.append("only a halted deletion can be called off")
    sheet.facts = known.state if known else None
    return sheet


async def _call_off(acting: Acting, _: Picture, given: Given) -> str:
    await acting.admin.ask_controller(PrivateKey.CANCEL_DELETION, {"topic": given["topic"]})
    return f"{given['topic']} stays"


def _named(*words: Any) -> Any:
    return lambda given: twins.command(*words, names=(given["topic"],))


DEEDS: Final = (
    Deed(
        kind="create",
        title="Create topic",
        role=Role.OPERATOR,
        fields=(
            Field(name="topic", label="Name"),
            Field(
                name="partitions", label="Partitions", kind="number", default=3, least=1, most=10**5
            ),
            Field(
                name="factor",
                label="Replication factor",
                kind="number",
                default=3,
                least=1,
                most=2**15 - 1,
            ),
            _SETTINGS,
        ),
        plan=_plan_creation,
        do=_create,
        twin=_creation_twin,
    ),
    Deed(
        kind="grow",
        title="Grow topic",
        role=Role.OPERATOR,
        fields=(
            _TOPIC,
            Field(name="partitions", label="Partitions, the new total", kind="number", most=10**5),
        ),
        plan=_plan_growth,
        do=_grow,
        twin=lambda given: twins.command(
            "topics", "alter", "-p", given["partitions"] or 0, names=(given["topic"],)
        ),
    ),
    Deed(
        kind="configure",
        title="Change settings",
        role=Role.OPERATOR,
        fields=(
            _TOPIC,
            _SETTINGS,
            Field(
                name="unset", label="Back to default", kind="list", required=False, about="names"
            ),
        ),
        plan=_plan_settings,
        do=_configure,
        twin=_settings_twin,
    ),
    Deed(
        kind="freeze",
        title="Freeze topic",
        role=Role.OPERATOR,
        fields=(_TOPIC,),
        plan=_plan_freeze,
        do=_freeze,
        twin=_named("topics", "freeze"),
    ),
    Deed(
        kind="unfreeze",
        title="Unfreeze topic",
        role=Role.OPERATOR,
        fields=(_TOPIC,),
        plan=_plan_unfreeze,
        do=_unfreeze,
        twin=_named("topics", "unfreeze"),
    ),
    Deed(
        kind="delete",
        title="Delete topic",
        role=Role.ADMIN,
        fields=(_TOPIC,),
        plan=_plan_deletion,
        do=_delete,
        twin=_named("topics", "delete"),
    ),
    Deed(
        kind="forget",
        title="Forget a broker's copies",
        role=Role.ADMIN,
        fields=(_TOPIC, Field(name="broker", label="Broker", kind="number")),
        plan=_plan_forgetting,
        do=_forget,
        twin=lambda given: twins.command(
            "topics", "delete", "--forget-broker", given["broker"] or 0, names=(given["topic"],)
        ),
    ),
    Deed(
        kind="call-off",
        title="Call off a deletion",
        role=Role.ADMIN,
        fields=(_TOPIC,),
        plan=_plan_calling_off,
        do=_call_off,
        twin=_named("topics", "cancel-delete"),
    ),
)
