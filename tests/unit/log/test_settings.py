"""Settings of a log as its topic has them."""

from __future__ import annotations

import pytest

from klamm.log.settings import LogSettings
from klamm.model.settings import BrokerSettings


@pytest.mark.parametrize(
    ("texts", "level"),
    [
        ({"compression.type": "lz4"}, None),
        ({"compression.type": "lz4", "compression.lz4.level": "9"}, None),
        ({"compression.type": "lz4", "compression.lz4.level": "12"}, 12),
        ({"compression.type": "gzip"}, None),
        ({"compression.type": "gzip", "compression.gzip.level": "1"}, 1),
        ({"compression.type": "zstd", "compression.zstd.level": "19"}, 19),
        ({"compression.type": "snappy", "compression.lz4.level": "12"}, None),
    ],
)
def test_the_level_is_that_of_the_codec(texts: dict[str, str], level: int | None) -> None:
    settings = LogSettings.of(BrokerSettings.parse({}).for_topic(texts))
    assert settings.compression_level == level
