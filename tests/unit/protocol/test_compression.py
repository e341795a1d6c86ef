"""Levels of compression: every codec that has them obeys them."""

from __future__ import annotations

import random

import pytest

from klamm.protocol.compression import Codec, compress, decompress


@pytest.mark.parametrize(
    ("codec", "quick", "thorough"),
    [(Codec.GZIP, 1, 9), (Codec.LZ4, None, 12), (Codec.LZ4, 1, 12), (Codec.ZSTD, 1, 19)],
)
def test_a_higher_level_takes_less_room(codec: Codec, quick: int | None, thorough: int) -> None:
    dice = random.Random(7)
    words = [bytes(dice.choices(b"abcdefgh", k=dice.randint(3, 9))) for _ in range(300)]
    plain = b" ".join(dice.choices(words, k=8000))
    large, small = compress(codec, plain, quick), compress(codec, plain, thorough)
    assert len(small) < len(large)
    assert decompress(codec, small) == decompress(codec, large) == plain
