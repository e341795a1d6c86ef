"""What a core was told and what it decided, as text a person can review."""

from __future__ import annotations

from klamm.controller import effects as do
from klamm.controller import events
from klamm.controller.effects import Decision, Request, Write
from klamm.controller.events import Event
from klamm.model.leadership import Leadership
from klamm.model.names import TopicPartition
from klamm.model.topics import StoredTopic
from world.cluster import World


class Transcript:
    """Listens to a world and writes down each event with its decisions."""

    def __init__(self, world: World) -> None:
        self._lines: list[str] = []
        self._event: Event | None = None
        world.watchers.append(self.hear)

    def heading(self, text: str) -> None:
        self._lines += ["", f"# {text}"]

    def text(self) -> str:
        return "\n".join(self._lines).lstrip("\n") + "\n"

    def hear(self, event: Event, decision: Decision) -> None:
        if event is not self._event:
            self._event = event
            self._lines += ["", f"event  {_event(event)}"]
        self._lines += [f"  warn   {text}" for text in decision.warnings]
        for move in decision.transitions:
            why = f"  ({move.why})" if move.why else ""
            self._lines.append(f"  move   {move.subject}: {move.before} -> {move.after}{why}")
        self._lines += [f"  send   {_request(request)}" for request in decision.requests]
        self._lines += [f"  write  {_write(write)}" for write in decision.writes]
        if decision.answer is not None:
            self._lines.append(f"  answer {_answer(decision.answer)}")


def _event(event: Event) -> str:
    name = type(event).__name__
    match event:
        case events.TermBegan(brokers=brokers, topics=topics, markers=markers):
            marked = f", markers {', '.join(markers)}" if markers else ""
            known = f", topics {', '.join(topics)}" if topics else ""
            return f"{name}: brokers {_ids(brokers)}{known}{marked}"
        case events.BrokersChanged(brokers):
            return f"{name}: brokers {_ids(brokers)}"
        case events.TopicsChanged(appeared, vanished):
            new = [f"{t} {_partitions(node)}" for t, node in appeared.items()]
            return (
                f"{name}: appeared {'; '.join(new) or '-'}, vanished {', '.join(vanished) or '-'}"
            )
        case events.MarkersChanged(topics):
            return f"{name}: {', '.join(topics) or '-'}"
        case events.LeaderAndIsrAnswered(request, _, errors):
            return f"{name}: broker {request.to}, {_codes(errors)}"
        case events.StopReplicaAnswered(request, _, errors):
            return f"{name}: broker {request.to}, {_codes(errors)}"
        case events.IsrChangesAsked(broker=broker, changes=changes):
            wanted = [f"{c.topic}-{c.partition} to {_ids(c.isr)}" for c in changes]
            return f"{name}: leader {broker}, {'; '.join(wanted)}"
        case events.ReassignmentsAsked(targets):
            wanted = [f"{id} to {'-' if t is None else _ids(t)}" for id, t in targets.items()]
            return f"{name}: {'; '.join(wanted)}"
        case events.ShutdownAsked(broker):
            return f"{name}: broker {broker}"
        case _:
            return name


def _request(request: Request) -> str:
    name = f"{type(request).__name__} to {request.to}"
    match request:
        case do.LeaderAndIsr(orders=orders):
            parts = [f"{o.partition} {_led(o.leadership)}{' new' * o.is_new}" for o in orders]
        case do.UpdateMetadata(partitions=partitions, brokers=brokers):
            parts = [
                f"{m.partition} " + ("leader -2" if m.is_deleted else _led(m.leadership))
                for m in partitions
            ] or [f"brokers {_ids([b.id for b in brokers])}"]
        case do.StopReplica(orders=stops):
            parts = [
                f"{o.partition} epoch {o.leader_epoch} delete={str(o.delete).lower()}"
                for o in stops
            ]
    return f"{name}: {'; '.join(parts)}"


def _write(write: Write) -> str:
    name = type(write).__name__
    match write:
        case do.CreateState(partition, leadership) | do.UpdateState(partition, leadership):
            version = leadership.partition_epoch
            return f"{name} {partition}: {_led(leadership)} version {version}"
        case do.RewriteTopic(topic, node):
            return f"{name} {topic}: {_partitions(node)}"
        case do.RemoveTopic(topic):
            return f"{name} {topic}"
        case do.RewriteLeftovers(broker, leftovers):
            return f"{name} of {broker}: {', '.join(map(str, leftovers)) or '-'}"
        case _:
            return str(write)


def _answer(answer: object) -> str:
    match answer:
        case events.IsrAnswer(code, results):
            return f"{code.name}: " + "; ".join(
                f"{c.topic}-{c.partition} {r.name}" for c, r, _ in results
            )
        case events.ReassignmentsAnswer(results):
            return "; ".join(f"{id} {fault.code.name}" for id, fault in results.items())
        case events.ShutdownAnswer(code, remaining):
            return f"{code.name}, remaining {', '.join(map(str, remaining)) or '-'}"
        case _:
            return str(answer)


def _led(leadership: Leadership) -> str:
    return f"leader {leadership.leader} epoch {leadership.leader_epoch} isr {_ids(leadership.isr)}"


def _partitions(node: StoredTopic) -> str:
    parts = []
    for index, assignment in node.partitions.items():
        moving = ""
        if assignment.is_reassigning:
            moving = f" adding {_ids(assignment.adding)} removing {_ids(assignment.removing)}"
        parts.append(f"{index}:{_ids(assignment.replicas)}{moving}")
    return "{" + ", ".join(parts) + "}"


def _codes(errors: dict[TopicPartition, object] | object) -> str:
    assert isinstance(errors, dict)
    return "; ".join(f"{id} {code.name}" for id, code in errors.items())


def _ids(brokers: object) -> str:
    assert hasattr(brokers, "__iter__")
    return "[" + ",".join(str(int(b)) for b in brokers) + "]"
