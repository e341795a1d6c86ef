"""Groups of both protocols as `klamm groups` shows them."""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass, field
from typing import Final

from klamm.client.aio.groups import Groups
from klamm.client.errors import VersionMismatch, refuse
from klamm.model.errors import ErrorCode, NotThere
from klamm.protocol.messages import consumer_group_describe, describe_groups

_DEAD: Final = "Dead"  # what a broker calls a group that it has never heard of


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member. Only those of the new protocol have an epoch and a target."""

    id: str
    instance: str | None
    client: str
    host: str
    partitions: dict[str, list[int]]
    epoch: int | None = None
    target: dict[str, list[int]] | None = None

    @property
    def line(self) -> str:
        said = f"  {self.id} at {self.host}"
        if self.epoch is None:
            return said
        moving = "" if self.partitions == self.target else f", on the way to {_text(self.target)}"
        return f"{said}, epoch {self.epoch}: {_text(self.partitions)}{moving}"


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group. Only those of the new protocol have epochs; an assignor has whoever has chosen."""

    group: str
    type: str
    state: str
    assignor: str
    members: list[MemberView] = field(default_factory=list)
    epoch: int | None = None
    assignment_epoch: int | None = None

    @property
    def line(self) -> str:
        said = f"{self.group}  {self.type}, {self.state}, {len(self.members)} members"
        if self.assignor:
            said += f", assignor {self.assignor}"
        if self.epoch is not None:
            said += f", epoch {self.epoch}, assigned for {self.assignment_epoch}"
        return said

    @property
    def json(self) -> dict[str, object]:
        return asdict(self)


async def look_at(groups: Groups, name: str) -> GroupView:
    """A group of whichever protocol it is."""
    try:
        new = await groups.describe_consumer(name)
    except VersionMismatch:
        new = None
    if new is not None and new.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
        refuse(new.error_code, f"group {name!r}")
        return _of_new(new)
    classic = await groups.describe(name)
    refuse(classic.error_code, f"group {name!r}")
    if classic.group_state == _DEAD:
        raise NotThere(f"there is no group {name!r}")
    return _of_classic(classic)


def _of_new(group: consumer_group_describe.DescribedGroup) -> GroupView:
    return GroupView(
        group=group.group_id,
        type="consumer",
        state=group.group_state,
        assignor=group.assignor_name,
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        members=[
            MemberView(
                id=member.member_id,
                instance=member.instance_id,
                client=member.client_id,
                host=member.client_host,
                partitions=_named(member.assignment),
                epoch=member.member_epoch,
                target=_named(member.target_assignment),
            )
            for member in group.members
        ],
    )


def _of_classic(group: describe_groups.DescribedGroup) -> GroupView:
    return GroupView(
        group=group.group_id,
        type="classic",
        state=group.group_state,
        assignor=group.protocol_data,
        members=[
            MemberView(
                id=member.member_id,
                instance=member.group_instance_id,
                client=member.client_id,
                host=member.client_host,
                partitions=_assigned(member.member_assignment),
            )
            for member in group.members
        ],
    )


def _named(assignment: consumer_group_describe.Assignment) -> dict[str, list[int]]:
    return {topic.topic_name: topic.partitions for topic in assignment.topic_partitions}


def _text(partitions: dict[str, list[int]] | None) -> str:
    parts = (f"{topic} {','.join(map(str, ns))}" for topic, ns in (partitions or {}).items())
    return "; ".join(parts) or "nothing"


def _assigned(assignment: bytes) -> dict[str, list[int]]:
    """The partitions in a consumer's assignment; what is not a consumer's is no partitions."""
    found: dict[str, list[int]] = {}
    try:
        _version, topics = struct.unpack_from(">hi", assignment)
        at = 6
        for _ in range(topics):
            (size,) = struct.unpack_from(">h", assignment, at)
            topic = assignment[at + 2 : at + 2 + size].decode()
            at += 2 + size
            (count,) = struct.unpack_from(">i", assignment, at)
            found[topic] = list(struct.unpack_from(f">{count}i", assignment, at + 4))
            at += 4 + 4 * count
    except (struct.error, UnicodeDecodeError):
        return {}
    return found
