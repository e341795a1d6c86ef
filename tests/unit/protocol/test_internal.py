"""Records of the internal topics, as Kafka writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.model.errors import ProtocolError
from klamm.protocol.internal import (
    GroupKey,
    GroupMemberValue,
    GroupValue,
    OffsetKey,
    OffsetValue,
    TransactionValue,
    decode_group_value,
    decode_offset_value,
    decode_offsets_key,
    decode_transaction_key,
    decode_transaction_value,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
    encode_transaction_key,
    encode_transaction_value,
    subscribed_topics,
)

texts = st.text(max_size=20)
longs = st.integers(-(2**63), 2**63 - 1)
ints = st.integers(-(2**31), 2**31 - 1)
members = st.builds(
    GroupMemberValue,
    id=texts,
    instance_id=st.none() | texts,
    client_id=texts,
    client_host=texts,
    rebalance_timeout_ms=ints,
    session_timeout_ms=ints,
    subscription=st.binary(max_size=20),
    assignment=st.binary(max_size=20),
)
groups = st.builds(
    GroupValue,
    protocol_type=texts,
    generation=ints,
    protocol=st.none() | texts,
    leader=st.none() | texts,
    state_time_ms=longs,
    members=st.lists(members, max_size=3).map(tuple),
)
transactions = st.builds(
    TransactionValue,
    producer_id=longs,
    epoch=st.integers(-1, 32767),
    timeout_ms=ints,
    state=st.integers(0, 7),
    partitions=st.none()
    | st.lists(st.tuples(texts, st.lists(ints, max_size=3).map(tuple)), max_size=3).map(tuple),
    updated_ms=longs,
    started_ms=longs,
)


def test_literal_bytes_of_a_committed_offset() -> None:
    key = encode_offset_key(OffsetKey("g", "t", 3))
    assert key == bytes.fromhex("0001 0001 67 0001 74 00000003")
    value = encode_offset_value(OffsetValue(offset=5, leader_epoch=2, commit_time_ms=9))
    assert value == bytes.fromhex("0003 0000000000000005 00000002 0000 0000000000000009")


def test_literal_bytes_of_a_group_key_and_a_transaction_key() -> None:
    assert encode_group_key(GroupKey("g")) == bytes.fromhex("0002 0001 67")
    assert encode_transaction_key("x") == bytes.fromhex("0000 0001 78")


def test_offsets_of_old_brokers_are_read() -> None:
    version_1 = bytes.fromhex("0001 0000000000000005 0001 6d 0000000000000009 000000000000000a")
    assert decode_offset_value(version_1) == OffsetValue(
        offset=5, metadata="m", commit_time_ms=9, expire_time_ms=10
    )


def test_keys_of_newer_brokers_are_passed_over() -> None:
    assert decode_offsets_key(bytes.fromhex("0005 0001 67")) is None


@given(texts, texts, ints)
def test_keys_come_back(group: str, topic: str, partition: int) -> None:
    key = OffsetKey(group, topic, partition)
    assert decode_offsets_key(encode_offset_key(key)) == key
    assert decode_offsets_key(encode_group_key(GroupKey(group))) == GroupKey(group)
    assert decode_transaction_key(encode_transaction_key(topic)) == topic


@given(groups)
def test_groups_come_back(value: GroupValue) -> None:
    assert decode_group_value(encode_group_value(value)) == value


@given(transactions)
def test_transactions_come_back(value: TransactionValue) -> None:
    assert decode_transaction_value(encode_transaction_value(value)) == value


@given(groups, st.integers(0, 200))
def test_cut_records_are_refused(value: GroupValue, size: int) -> None:
    whole = encode_group_value(value)
    if size < len(whole):
        with pytest.raises((ProtocolError, UnicodeDecodeError)):
            decode_group_value(whole[:size])


def test_topics_of_a_subscription() -> None:
    subscription = bytes.fromhex("0001 00000002 0001 61 0001 62 ffffffff 00000000")
    assert subscribed_topics(subscription) == {"a", "b"}
    assert subscribed_topics(b"\x00") is None
