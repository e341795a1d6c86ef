"""The tables say the truth: about the code, and on the page made from them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from klamm.model.settings import BROKER_SETTINGS, TOPIC_SETTINGS, Dynamic, topic
from klamm.model.settings.layers import ORDERED

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "klamm"
# Read by name only where settings of all kinds are handled alike.
SYNONYMS = {synonym.name for own in TOPIC_SETTINGS.values() for synonym in own.synonyms}
# Bounds of other settings: they are held to when a broker's settings are put together.
BOUNDS = {name for pair in ORDERED for name in pair}


@pytest.fixture(scope="module")
def words() -> frozenset[str]:
    """Every text in the code outside of the tables, and those that it has from them by a name."""
    tables = SOURCE / "model" / "settings", SOURCE / "security" / "settings" / "table.py"
    files = (p for p in SOURCE.rglob("*.py") if p not in tables and p.parent not in tables)
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text()))]
    named = (
        getattr(topic, alias.name, None)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == topic.__name__
        for alias in node.names
    )
    written = (node.value for node in nodes if isinstance(node, ast.Constant))
    return frozenset(text for text in (*written, *named) if isinstance(text, str))


@pytest.mark.parametrize(
    "name",
    [
        *(name for name, d in TOPIC_SETTINGS.items() if not d.no_effect),
        *(n for n, d in BROKER_SETTINGS.items() if not d.no_effect and n not in SYNONYMS | BOUNDS),
    ],
)
def test_what_is_said_to_have_an_effect_is_read_somewhere(words: frozenset[str], name: str) -> None:
    assert name in words


_READERS = {"bool", "float", "int", "list", "str", "text"}


def _names_read() -> set[str]:
    """The names that the code asks settings for, as far as they are written out."""
    calls = (
        (node.func.attr, node.args)
        for path in SOURCE.rglob("*.py")
        if "pipelines" not in path.parts  # its options are Spark's
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    )
    texts = (
        args[0].value
        for name, args in calls
        if name in _READERS and args and isinstance(args[0], ast.Constant)
    )
    return {text for text in texts if isinstance(text, str) and "." in text}


def test_no_setting_is_read_that_is_not_in_a_table() -> None:
    names = _names_read()
    assert len(names) > 50
    assert names - BROKER_SETTINGS.keys() - TOPIC_SETTINGS.keys() == set()


# What Kafka 3.9 lets change while a broker runs, without what is about listeners and security.
LIVE_IN_KAFKA = """
    background.threads compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level follower.replication.throttled.rate leader.replication.throttled.rate
    log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms
    log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
    log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms
    log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms log.cleaner.threads
    log.cleanup.policy log.flush.interval.messages log.flush.interval.ms log.index.interval.bytes
    log.index.size.max.bytes log.local.retention.bytes log.local.retention.ms
    log.message.downconversion.enable log.message.timestamp.after.max.ms
    log.message.timestamp.before.max.ms log.message.timestamp.difference.max.ms
    log.message.timestamp.type log.preallocate log.retention.bytes log.retention.ms
    log.roll.jitter.ms log.roll.ms log.segment.bytes log.segment.delete.delay.ms
    max.connection.creation.rate max.connections max.connections.per.ip
    max.connections.per.ip.overrides message.max.bytes metric.reporters min.insync.replicas
    num.io.threads num.network.threads num.recovery.threads.per.data.dir num.replica.fetchers
    producer.id.expiration.ms remote.fetch.max.wait.ms
    remote.log.index.file.cache.total.size.bytes remote.log.manager.copy.max.bytes.per.second
    remote.log.manager.fetch.max.bytes.per.second replica.alter.log.dirs.io.max.bytes.per.second
    transaction.partition.verification.enable unclean.leader.election.enable
"""


def test_what_kafka_lets_change_while_brokers_run_is_not_refused() -> None:
    fixed = [n for n in LIVE_IN_KAFKA.split() if BROKER_SETTINGS[n].dynamic is Dynamic.READ_ONLY]
    assert fixed == []


def test_a_setting_without_effect_gives_its_reason() -> None:
    idle = [d for d in BROKER_SETTINGS.values() if d.no_effect]
    assert len(idle) > 100
    assert all(d.no_effect.startswith("klamm") for d in idle)


def test_the_page_is_not_stale() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "generate_settings.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
