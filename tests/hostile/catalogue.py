"""Which attacks there are, how large each is at full size and in the smoke, on which target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hostile import attacks
from hostile.attacks import Attack

# The cleaner looks often and groups do not wait for more members, so that an attack on them is over
# within the attack.
SETTINGS: Final = {"log.cleaner.backoff.ms": "500", "group.initial.rebalance.delay.ms": "0"}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One attack."""

    run: Attack
    full: Mapping[str, Any] = field(default_factory=dict)
    smoke: Mapping[str, Any] = field(default_factory=dict)
    target: Mapping[str, Any] = field(default_factory=dict)  # how its own cluster differs
    alone: bool = False  # needs a cluster of its own
    max_s: float = 2.0  # what the healthy user may wait in the smoke, on a busy machine
    memory_mb: float = 100.0  # by which the cluster may grow in the smoke
    memory_goal_mb: float = 100.0  # and at full size
    may_complain: bool = False  # the cluster is expected to log errors: it was damaged
    may_stop: bool = False  # the healthy user may be refused: the damage is real

    @property
    def name(self) -> str:
        return self.run.__name__


_ENTRIES: Final = (
    Entry(run=attacks.path_traversal),
    Entry(run=attacks.long_topic_name),
    Entry(
        run=attacks.zstd_bomb_list_offsets,
        smoke={"records": 4_000_000, "honest": 100_000},
    ),
    Entry(
        run=attacks.small_bomb_many_list_offsets,
        smoke={"records": 1_000_000, "honest": 30_000, "lookups": 7},
    ),
    Entry(run=attacks.metadata_empty_names, full={"size_mb": 90}, smoke={"size_mb": 9}),
    Entry(run=attacks.list_offsets_large, full={"size_mb": 10}, smoke={"size_mb": 10}),
    Entry(run=attacks.create_topics_large, full={"size_mb": 10}, smoke={"size_mb": 10}),
    Entry(run=attacks.describe_configs_large, full={"size_mb": 10}, smoke={"size_mb": 10}),
    Entry(run=attacks.produce_large, full={"size_mb": 8}, smoke={"size_mb": 4}),
    Entry(run=attacks.fetch_large, full={"size_mb": 14}, smoke={"size_mb": 14}),
    Entry(run=attacks.tags_large, full={"size_mb": 30}, smoke={"size_mb": 30}),
    Entry(run=attacks.tiny_requests, full={"requests": 200_000}, smoke={"requests": 5_000}),
    Entry(run=attacks.private_json_large, full={"size_mb": 75}, smoke={"size_mb": 30}),
    Entry(run=attacks.private_json_deep),
    Entry(
        run=attacks.story_flood,
        full={"partitions": 3000, "connections": 40},
        smoke={"partitions": 1500, "connections": 30, "each": 1},
    ),
    Entry(run=attacks.compacted_produce, full={"records": 2_000_000}, smoke={"records": 1_000_000}),
    Entry(
        run=attacks.cleaner_bomb,
        smoke={"records": 3_000_000, "honest": 300_000, "seconds": 2.5},
    ),
    Entry(
        run=attacks.subscription_pattern,
        full={"topics": 56},
        smoke={"topics": 56},
        max_s=1.5,
    ),
    Entry(
        run=attacks.hoarding_members,
        full={"groups": 60, "size_mb": 8},
        smoke={"groups": 8, "size_mb": 8},
        alone=True,
    ),
    Entry(run=attacks.forged_stop_replica),
    Entry(run=attacks.forged_update_metadata),
    Entry(run=attacks.forged_roll_call),
    Entry(run=attacks.forged_leader_and_isr),
    Entry(run=attacks.unknown_recovery_state),
    Entry(run=attacks.forged_txn_markers),
    Entry(run=attacks.forged_controlled_shutdown),
    Entry(run=attacks.forged_alter_partition),
    Entry(run=attacks.forged_producer_ids),
    Entry(run=attacks.forged_follower_fetch),
    Entry(run=attacks.forged_admin_client),
    Entry(run=attacks.poison_batches),
    Entry(run=attacks.terminal_escapes),
    Entry(run=attacks.slow_loris, smoke={"seconds": 1.0}),
    Entry(
        run=attacks.half_frames,
        full={"connections": 300},
        smoke={"connections": 250},
    ),
    Entry(
        run=attacks.unread_answers,
        full={"connections": 200, "size_mb": 20},
        smoke={"connections": 60, "size_mb": 10, "seconds": 1.0},
    ),
    # Partitions that are there stay there: some 10 KB each.
    Entry(
        run=attacks.many_partitions,
        full={"count": 20_000},
        smoke={"count": 500},
        memory_goal_mb=300.0,
    ),
    Entry(
        run=attacks.partitions_on_a_busy_disk,
        full={"count": 3000},
        smoke={"count": 300},
        target={"mkdir_ms": 10},
        alone=True,
    ),
    Entry(run=attacks.max_connections_zero, alone=True),
    Entry(
        run=attacks.connection_flood,
        full={"connections": 3000, "hold_s": 10},
        smoke={"connections": 400, "hold_s": 2},
        target={"descriptors": 300, "every_line": False},
        alone=True,
    ),
    Entry(run=attacks.store_unlinked, alone=True, may_complain=True, may_stop=True),
    Entry(run=attacks.store_truncated, alone=True, may_complain=True, may_stop=True),
    Entry(run=attacks.truncated_at_rest, alone=True),
)

CATALOGUE: Final[Mapping[str, Entry]] = {entry.name: entry for entry in _ENTRIES}
