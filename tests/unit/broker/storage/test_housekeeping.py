"""Chores whose interval changes while they pause."""

from __future__ import annotations

from pathlib import Path

from klamm.broker.admin.topic_writes import alter_config
from klamm.model.names import TopicPartition
from klamm.protocol.batch import Record, encode_batch
from klamm.store.layout import ConfigEntity, ConfigKind
from unit.broker.brokers import World, until, world

ALL = ConfigEntity(ConfigKind.BROKER, None)
HOUR = "3600000"


async def change(w: World, **texts: str) -> None:
    named = {name.replace("_", "."): text for name, text in texts.items()}
    session = w.brokers[0].parts.session
    assert await alter_config(session, ALL, lambda stored: {**stored, **named}) is None


async def test_a_cleaner_told_to_rest_less_does_not_sleep_on(tmp_path: Path) -> None:
    async with world(tmp_path, 1, log_cleaner_backoff_ms=HOUR) as w:
        configs = {"cleanup.policy": "compact", "segment.bytes": "200"}
        await w.create("t", (0,), configs={**configs, "min.cleanable.dirty.ratio": "0"})
        local = w.leader("t").log
        assert local is not None
        for at in range(20):
            records = [Record(0, at, b"same key", b"value %d" % at)]
            w.leader("t").append(memoryview(encode_batch(records)), acks=1, version=11)
        assert local.log_start_offset == 0
        before = size_of(tmp_path)
        await change(w, log_cleaner_backoff_ms="1")
        await until(lambda: size_of(tmp_path) < before, "the log is compacted")


def size_of(data: Path) -> int:
    return sum(file.stat().st_size for file in (data / "broker-0" / "t-0").glob("*.log"))


async def test_a_log_goes_when_the_changed_delay_is_over(tmp_path: Path) -> None:
    async with world(tmp_path, 1, log_segment_delete_delay_ms=HOUR) as w:
        broker = w.brokers[0]
        await w.create("t", (0,))
        await change(w, log_segment_delete_delay_ms="1")
        await until(
            lambda: broker.parts.logs.directories[0].delete_delay_ms == 1, "it was heard of"
        )
        broker.parts.replicas.abandon()
        broker.parts.logs.schedule_delete([TopicPartition("t", 0)], broker.parts.clock.now_ms())
        await until(lambda: not list((tmp_path / "broker-0").glob("t-0*")), "it is gone")
