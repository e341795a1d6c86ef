"""Keys go where other clients send them."""

from __future__ import annotations

from aiokafka.partitioner import murmur2 as reference
from hypothesis import given
from hypothesis import strategies as st

from klamm.client.partitioner import murmur2, partition_of


@given(data=st.binary(max_size=40))
def test_the_hash_is_that_of_other_clients(data: bytes) -> None:
    assert murmur2(data) == reference(data) & 0xFFFFFFFF


def test_known_values_of_the_java_client() -> None:
    assert murmur2(b"21") == -973932308 & 0xFFFFFFFF
    assert murmur2(b"foobar") == -790332482 & 0xFFFFFFFF
    assert partition_of(b"a-little-bit-longer-string", 1) == 0
