"""Options of the data source: the official connector's names and meanings, and clear refusals."""

from __future__ import annotations

import logging

import pytest

from klamm.model.errors import UsageError
from klamm.model.names import TopicPartition
from klamm.model.offsets import EARLIEST, LATEST
from klamm.pipelines.source.options import parse_read, parse_write

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
T0 = TopicPartition("t", 0)


def _refusal(options: dict[str, str], *, streaming: bool = False) -> str:
    with pytest.raises(UsageError) as refused:
        parse_read(options, streaming=streaming)
    return str(refused.value)


def test_defaults_are_the_official_ones() -> None:
    batch, stream = parse_read(BASE, streaming=False), parse_read(BASE, streaming=True)
    assert batch.starting.word == EARLIEST
    assert stream.starting.word == LATEST
    assert batch.ending.word == LATEST
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert batch.poll_timeout_ms == 120_000
    assert stream.trigger_delay_ms_max == 15 * 60_000


def test_keys_are_found_in_any_case() -> None:
    """T16: Spark hands options over with their keys in lower case."""
    options = {k.lower(): v for k, v in (BASE | {"maxOffsetsPerTrigger": "7"}).items()}
    assert parse_read(options, streaming=True).offsets_max == 7


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"path": "x"}, "subscribe"),
        ({"topic": "x"}, "here, name the topic with subscribe"),
        ({"bootstrap.servers": "h:1"}, "did you mean kafka.bootstrap.servers?"),
        ({"assign": '{"t":[0]}'}, "exactly one of"),
        ({"startingOffsets": "latest"}, "makes no sense for a batch"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "makes no sense for a batch"),
        ({"endingOffsets": "earliest"}, "nothing is earlier"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "as an end"),
        ({"startingOffsets": "soon"}, "is no JSON"),
        ({"kafka.auto.offset.reset": "latest"}, "startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "commitOffsets"),
        ({"kafka.value.deserializer": "x"}, "cast"),
        ({"failOnDataLoss": "maybe"}, "neither true nor false"),
        ({"minPartitions": "0"}, "at least 1"),
        ({"frameBytes": "8 q"}, "a size such as 8m"),
        ({"kafka.bootstrap.servers": "nowhere"}, "is not host:port"),
        ({"commitOffsets": "true"}, "kafka.group.id"),
        ({"onTopicRecreated": "shrug"}, "fail, restart, ignore"),
        ({"kafka.key.deserializer": "x"}, "cast"),
        ({"kafka.interceptor.classes": "x"}, "no interceptor"),
        ({"maxRecordsPerPartition": "0"}, "at least 1"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "(9) is higher than"),
        ({"startingTimestamp": "today"}, "a whole number"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "error, latest"),
    ],
)
def test_refusals_say_what_to_write_instead(more: dict[str, str], says: str) -> None:
    assert says in _refusal(BASE | more)


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ({"subscribe": " , "}, "names no topic"),
        ({"subscribePattern": "  "}, "is empty"),
        ({"subscribePattern": "("}, "is no pattern"),
        ({"assign": "t"}, "is no JSON"),
        ({"assign": '{"t":0}'}, "lists of partitions"),
    ],
)
def test_topics_must_be_chosen_properly(chosen: dict[str, str], says: str) -> None:
    assert says in _refusal({"kafka.bootstrap.servers": "h:1"} | chosen)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_streams_have_no_end(name: str) -> None:
    assert "for batch reads" in _refusal(BASE | {name: "1"}, streaming=True)


def test_no_topic_is_refused() -> None:
    assert "exactly one of" in _refusal({"kafka.bootstrap.servers": "h:1"})


def test_no_address_is_refused() -> None:
    assert "kafka.bootstrap.servers" in _refusal({"subscribe": "t"})


def test_time_goes_before_times_before_offsets() -> None:
    options = BASE | {"startingOffsets": "earliest"}
    assert parse_read(options, streaming=False).starting.word == EARLIEST
    options |= {"startingOffsetsByTimestamp": '{"t":{"0":5}}'}
    assert parse_read(options, streaming=False).starting.times == {T0: 5}
    options |= {"startingTimestamp": "9"}
    assert parse_read(options, streaming=False).starting.time_ms == 9


def test_the_same_for_ends() -> None:
    options = BASE | {"endingOffsets": "latest"}
    assert parse_read(options, streaming=False).ending.is_open
    options |= {"endingOffsetsByTimestamp": '{"t":{"0":5}}'}
    assert parse_read(options, streaming=False).ending.times == {T0: 5}
    options |= {"endingTimestamp": "9"}
    assert parse_read(options, streaming=False).ending.time_ms == 9


def test_words_and_names_are_trimmed_and_words_are_read_in_any_case() -> None:
    words = {
        "startingOffsets": " Earliest ",
        "endingOffsets": " LATEST ",
        "kafka.security.protocol": "plaintext",
    }
    found = parse_read(BASE | words, streaming=False)
    assert (found.starting.word, found.ending.word) == (EARLIEST, LATEST)
    late = {"startingOffsets": ' {"t":{"0":3}} ', "startingTimestamp": " 7 "}
    starting = parse_read(BASE | late, streaming=True).starting
    assert (starting.time_ms, starting.late_is_latest) == (7, False)
    strategy = {"startingOffsetsByTimestampStrategy": " LATEST"}
    assert parse_read(BASE | late | strategy, streaming=True).starting.late_is_latest
    assert parse_read({**BASE, "subscribe": " b,a ,b"}, streaming=True).subscribe == ("a", "b")
    assert parse_write({"kafka.bootstrap.servers": "h:1", "topic": " t "}).topic == "t"


def test_own_offsets_with_ids_are_accepted() -> None:
    text = '{"ids":{"t":"abc"},"topics":{"t":{"0":3}},"v":1}'
    starting = parse_read(BASE | {"startingOffsets": text}, streaming=True).starting
    assert starting.offsets == {T0: 3}
    assert starting.ids == {"t": "abc"}


def test_unknown_kafka_option_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        parse_read(BASE | {"kafka.linger.ms": "5"}, streaming=False)
    assert [r.getMessage() for r in caplog.records] == [
        "the option kafka.linger.ms has no effect on klamm's data source"
    ]


def test_limits_of_streams_are_said_to_have_no_effect_on_a_batch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "5", "maxTriggerDelay": "2d"}
    parse_read(BASE | limits, streaming=True)
    assert not caplog.records
    parse_read(BASE | limits, streaming=False)
    assert [r.args for r in caplog.records] == [(name,) for name in limits]


def test_sizes_and_times_have_units() -> None:
    found = parse_read(BASE | {"frameBytes": "2m", "maxTriggerDelay": "30s"}, streaming=True)
    assert (found.frame_bytes, found.trigger_delay_ms_max) == (2 << 20, 30_000)


def test_write_options() -> None:
    found = parse_write(
        {
            "kafka.bootstrap.servers": "[::1]:9092,b:1",
            "topic": "t",
            "kafka.compression.type": "lz4",
            "checkpointLocation": "/somewhere",
        }
    )
    assert found.connection.bootstrap == (("::1", 9092), ("b", 1))
    assert found.codec == 3
    assert found.acks == -1


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"topic": "a/b"}, "characters"),
        ({"kafka.acks": "0"}, "lose records"),
        ({"kafka.partitioner.class": "x"}, "option partitioner"),
        ({"delivery": "exactly-once", "topic": "t"}, "needs the option jobId"),
        ({"delivery": "exactly-once", "jobId": "a/b", "topic": "t"}, "option jobId: write"),
        ({"delivery": "exactly-once", "jobId": "j"}, "needs the option markerTopic"),
        ({"delivery": "exactly-once", "jobId": "j", "markerTopic": "a/b"}, "markerTopic: .*chara"),
        (
            {"delivery": "exactly-once", "jobId": "j", "topic": "t", "kafka.acks": "1"},
            "use kafka.acks=all",
        ),
        ({"jobId": "j"}, "with delivery=exactly-once only"),
        ({"kafka.transactional.id": "x"}, "delivery=exactly-once"),
        ({"subscribe": "t"}, "unknown option subscribe; here, name the topic with topic"),
        ({"kafka.bootstrap.servers": "h:65536"}, "is not host:port"),
    ],
)
def test_write_refusals(more: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_write({"kafka.bootstrap.servers": "h:1"} | more)


def test_exactly_once() -> None:
    given = {"kafka.bootstrap.servers": "h:1", "delivery": "exactly-once"}
    stream = parse_write(given | {"topic": "t"}, streaming=True).once
    assert stream is not None
    assert (stream.job, stream.marker_topic, stream.transaction_timeout_ms) == (None, "t", 900_000)
    more = {"jobId": "j", "markerTopic": "m", "kafka.transaction.timeout.ms": "5"}
    batch = parse_write(given | more).once
    assert batch is not None
    assert (batch.job, batch.marker_topic, batch.transaction_timeout_ms) == ("j", "m", 5)
    with pytest.raises(UsageError, match="jobId is for batch writes"):
        parse_write(given | {"topic": "t", "jobId": "j"}, streaming=True)


def test_time_of_a_transaction_without_one_is_told(caplog: pytest.LogCaptureFixture) -> None:
    parse_write({"kafka.bootstrap.servers": "h:1", "kafka.transaction.timeout.ms": "5"})
    assert "has no effect without delivery=exactly-once" in caplog.text
