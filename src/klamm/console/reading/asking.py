"""The questions that the reader asks, each one call: answers become values of the picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from klamm.client.aio import throttling
from klamm.client.aio.admin import Admin, ConfigResource
from klamm.client.aio.groups import Groups
from klamm.client.errors import ClientError
from klamm.console.reading.picture import Offsets, Partition, Topic, pictured
from klamm.model.alterations import ConfigResourceType
from klamm.model.errors import KlammError, RequestRefused
from klamm.model.names import TopicPartition, id_text
from klamm.model.offsets import EARLIEST, LATEST
from klamm.protocol.messages import metadata
from klamm.protocol.private import PrivateKey

PAGE_PARTITIONS: Final = 5_000
OFFSETS_MAX: Final = 20_000  # partitions whose ends are asked for in one round
GROUPS_MAX: Final = 200  # that are looked into in one round
_INTERNAL: Final = ("__",)

Json = dict[str, Any]


def topic_of(told: Mapping[str, Any]) -> Topic:
    """A topic as the controller tells of it."""
    partitions = (
        Partition(
            index=p["index"],
            state=p["state"],
            leader=p["leader"],
            leader_epoch=p["leader_epoch"],
            replicas=tuple(p["replicas"]),
            isr=tuple(p["isr"]),
            adding=tuple(p["adding"]),
            removing=tuple(p["removing"]),
            replica_states=tuple(p["replica_states"]),
        )
        for p in told["partitions"]
    )
    name = told["name"]
    internal = name.startswith(_INTERNAL)
    return pictured(name, told["id"], told["state"], partitions, internal=internal)


async def states(admin: Admin) -> tuple[dict[str, Topic], tuple[int, int], list[Json]]:
    """Every topic, the place in the ledger they are true for, and the three machines."""
    topics: dict[str, Topic] = {}
    body: Json = {"limit": PAGE_PARTITIONS, "machines": True}
    answer = await admin.ask_controller(PrivateKey.STATES, body)
    place, machines = tuple(answer["place"]), answer["machines"]
    while True:
        topics |= {told["name"]: topic_of(told) for told in answer["topics"]}
        if not answer["more"]:
            return topics, (place[0], place[1]), machines
        body = {"limit": PAGE_PARTITIONS, "after": answer["topics"][-1]["name"]}
        answer = await admin.ask_controller(PrivateKey.STATES, body)


def derived_topic(told: metadata.MetadataResponseTopic, live: Iterable[int]) -> Topic:
    """A topic of any Kafka: what the states must be, seen from outside."""
    there = frozenset(live)
    partitions = [
        Partition(
            index=p.partition_index,
            state="Online" if p.leader_id >= 0 else "Offline",
            leader=p.leader_id,
            leader_epoch=p.leader_epoch,
            replicas=tuple(p.replica_nodes),
            isr=tuple(p.isr_nodes),
            replica_states=tuple("Online" if b in there else "Offline" for b in p.replica_nodes),
        )
        for p in sorted(told.partitions, key=lambda p: p.partition_index)
    ]
    name = told.name or ""
    internal = told.is_internal or name.startswith(_INTERNAL)
    return pictured(name, id_text(told.topic_id), "created", partitions, internal=internal)


async def status(admin: Admin) -> Json:
    """One look at the whole cluster, as its controller sees it."""
    found = dict(await admin.ask_controller(PrivateKey.STATUS, {}))
    found.pop("error_code", None)
    return found


def derived_status(controller: int, nodes: Mapping[int, Any], topics: Iterable[Topic]) -> Json:
    """As much of that as any Kafka tells."""
    partitions = [(topic.name, p) for topic in topics for p in topic.partitions]
    named = {b for _, p in partitions for b in p.replicas}
    offline = [f"{name}-{p.index}" for name, p in partitions if p.leader < 0]
    short = [f"{name}-{p.index}" for name, p in partitions if p.leader >= 0 and p.is_short]
    nothing: Json = {"count": 0, "items": []}
    return {
        "controller": controller,
        "controller_epoch": None,
        "controller_since_ms": None,
        "brokers": [
            {
                "id": id,
                "presence": "up" if id in nodes else "down",
                "since_ms": None,
                "address": f"{nodes[id].host}:{nodes[id].port}" if id in nodes else None,
                "rack": nodes[id].rack if id in nodes else None,
                "leads": sum(p.leader == id for _, p in partitions),
                "replicas": sum(id in p.replicas for _, p in partitions),
                "offline_logs": None,
                "refused_orders": None,
            }
            for id in sorted(named.union(nodes))
        ],
        "offline": {"count": len(offline), "items": offline[:1_000]},
        "under_replicated": {"count": len(short), "items": short[:1_000]},
        "below_min_isr": None,
        "deletions": nothing,
        "moves": nothing,
        "frozen": nothing,
        "refused": nothing,
    }


async def explanations(admin: Admin) -> list[Json]:
    """The waits of every topic that waits for something; 1,000 topics at most."""
    found: list[Json] = []
    while len(found) < 1_000:
        body = {"after": found[-1]["topic"]} if found else {}
        answer = await admin.ask_controller(PrivateKey.EXPLAIN, body)
        found += answer["topics"]
        if not answer["more"]:
            break
    return found


def derived_waits(topics: Iterable[Topic], live: frozenset[int]) -> list[Json]:
    """The waits that can be seen from outside: no leader, not in sync."""
    found = []
    for topic in topics:
        waiting: list[Json] = []
        for p in topic.partitions:
            if p.leader < 0:
                waiting.append(_wait("election", p.index, None, "it has no leader"))
            for broker in p.origin:
                if broker not in p.isr:
                    why = "behind its leader" if broker in live else "broker is down"
                    waiting.append(_wait("replication", p.index, broker, why))
        if waiting:
            told = {"topic": topic.name, "state": topic.state, "deleting_since_ms": None}
            found.append({**told, "waiting": waiting, "derived": True})
    return found


def still_waiting(waits: Iterable[Json], topics: Mapping[str, Topic]) -> list[Json]:
    """The waits without those for a replica that is in sync by now: news come before the next look.

    Nothing is added here, for reasons are the controller's to tell.
    """
    found = []
    for told in waits:
        topic = topics.get(told["topic"])
        in_sync = {p.index: p.isr for p in topic.partitions} if topic is not None else {}
        left = [
            each
            for each in told["waiting"]
            if each["what"] != "replication"
            or each["broker"] not in in_sync.get(each["partition"], ())
        ]
        if left:
            found.append({**told, "waiting": left})
    return found


def _wait(what: str, partition: int, broker: int | None, why: str) -> Json:
    until = "a replica in sync is back" if broker is None else f"broker {broker} has caught up"
    return {
        "what": what,
        "partition": partition,
        "broker": broker,
        "why": why,
        "until": until,
        "since_ms": None,
        "since_at_least": True,
    }


async def offsets(
    admin: Admin,
    topics: Iterable[Topic],
    before: Mapping[tuple[str, int], Offsets],
    passed_s: float,
) -> dict[tuple[str, int], Offsets]:
    """The ends of all partitions that are led, and what came since the last look."""
    led = [
        TopicPartition(topic.name, p.index)
        for topic in topics
        if not topic.is_doomed
        for p in topic.partitions
        if p.leader >= 0
    ][:OFFSETS_MAX]
    if not led:
        return {}
    ends = await admin.list_offsets(dict.fromkeys(led, LATEST), timeout_s=4)
    starts = await admin.list_offsets(dict.fromkeys(led, EARLIEST), timeout_s=4)
    found = {}
    for tp, end in ends.items():
        start = starts.get(tp)
        if end.error_code or start is None or start.error_code:
            continue
        known = before.get((tp.topic, tp.partition))
        rate = None
        if known is not None and passed_s > 0:
            rate = max(0, end.offset - known.end) / passed_s
        found[tp.topic, tp.partition] = Offsets(start.offset, end.offset, rate)
    return found


Logs = tuple[dict[tuple[str, int, int], int], dict[int, list[Json]]]


async def log_dirs(admin: Admin, brokers: Iterable[int]) -> tuple[Logs, list[str]]:
    """The size of every log and the directories of each broker, and who did not answer."""
    sizes: dict[tuple[str, int, int], int] = {}
    dirs: dict[int, list[Json]] = {}
    faults = []
    for broker in brokers:
        try:
            results = (await admin.log_dirs([broker]))[broker]
        except (ClientError, RequestRefused) as fault:
            faults.append(f"broker {broker}: {fault}")
            continue
        dirs[broker] = []
        for found in results:
            logs = [(t.name, p) for t in found.topics for p in t.partitions]
            for name, p in logs:
                sizes[name, p.partition_index, broker] = p.partition_size
            dirs[broker].append(
                {
                    "path": found.log_dir,
                    "error_code": found.error_code,
                    "logs": len(logs),
                    "bytes": sum(p.partition_size for _, p in logs),
                    "total_bytes": found.total_bytes if found.total_bytes >= 0 else None,
                    "usable_bytes": found.usable_bytes if found.usable_bytes >= 0 else None,
                }
            )
    return (sizes, dirs), faults


async def limits(admin: Admin, brokers: Iterable[int]) -> dict[int, int]:
    """The rate that each broker may copy replicas at, where somebody has set one."""
    asked = [ConfigResource(ConfigResourceType.BROKER, str(broker)) for broker in brokers]
    found: dict[int, int] = {}
    for result in await admin.describe_configs(asked, names=throttling.RATES) if asked else ():
        told = [e.value for e in result.configs if e.config_source == throttling.BROKER_OVERRIDE]
        rates = [int(value) for value in told if value and value.isdecimal()]
        if rates:
            found[int(result.resource_name)] = min(rates)
    return found


async def groups(admin: Admin, ends: Mapping[tuple[str, int], Offsets]) -> dict[str, Json]:
    """All groups; members and offsets of the first ones."""
    asked = Groups(admin.client)
    found: dict[str, Json] = {}
    for position, listed in enumerate(await asked.all()):
        found[listed.group_id] = {
            "state": listed.group_state or None,
            "type": listed.group_type or "classic",
            "protocol_type": listed.protocol_type,
        }
        if position < GROUPS_MAX:
            try:
                is_modern = listed.group_type == "consumer"
                more = await _group(asked, listed.group_id, ends, is_modern=is_modern)
                found[listed.group_id] |= more
            except KlammError as fault:
                found[listed.group_id]["error"] = str(fault)
    return found


async def _group(
    asked: Groups, id: str, ends: Mapping[tuple[str, int], Offsets], *, is_modern: bool
) -> Json:
    """One group: its members, whichever protocol they speak, and where it stands."""
    told = await asked.describe_consumer(id) if is_modern else await asked.describe(id)
    members: list[Json] = [
        {"member_id": m.member_id, "client_id": m.client_id, "client_host": m.client_host}
        for m in told.members
    ]
    committed = await asked.offsets(id)
    rows = []
    for tp, found in sorted(committed.items()):
        known = ends.get((tp.topic, tp.partition))
        end = known.end if known else None
        offset = found.committed_offset
        lag = None if end is None or offset < 0 else max(0, end - offset)
        rows.append(
            {
                "id": f"{tp.topic}-{tp.partition}",
                "topic": tp.topic,
                "partition": tp.partition,
                "committed": offset,
                "end": end,
                "lag": lag,
            }
        )
    return {"members": members, "offsets": rows, "state": told.group_state}


async def story(admin: Admin, topic: str | None, limit: int) -> tuple[list[Json], list[str]]:
    """The lines of every broker about a topic, or about all, and who could not be asked."""
    found: dict[tuple[int, int], Json] = {}
    faults = []
    picture = await admin.client.refresh([])
    for broker in picture.nodes:
        try:
            body = {"topic": topic, "limit": limit}
            answers = await admin.ask_brokers(PrivateKey.STORY, body, [broker], foreign=set())
        except (ClientError, RequestRefused) as fault:
            faults.append(f"broker {broker}: {fault}")
            continue
        for answer in answers.values():
            for line in answer.get("entries", ()):
                found[line["controller_epoch"], line["sequence"]] = line
    return [line for _, line in sorted(found.items())][-limit:], faults
