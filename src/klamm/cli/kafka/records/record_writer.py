"""Records as `klamm kafka-console-consumer` prints them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from klamm.client.aio.consumer import Consumed

_FLAGS: Final[Mapping[str, bool]] = {
    "print.timestamp": False,
    "print.partition": False,
    "print.offset": False,
    "print.headers": False,
    "print.key": False,
    "print.value": True,
}
_TEXTS: Final[Mapping[str, str]] = {
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
}
_DESERIALIZERS: Final = ("key.deserializer", "value.deserializer", "headers.deserializer")
_PLAIN: Final = (
    "org.apache.kafka.common.serialization.StringDeserializer",
    "org.apache.kafka.common.serialization.ByteArrayDeserializer",
)
_INTEGERS: Final = {
    "org.apache.kafka.common.serialization.IntegerDeserializer": 4,
    "org.apache.kafka.common.serialization.LongDeserializer": 8,
}


class RecordWriter:
    """Turns records into bytes, as the properties of Kafka's formatter ask for."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        known = {*_FLAGS, *_TEXTS, *_DESERIALIZERS}
        if strange := sorted(properties.keys() - known):
            raise ValueError(f"there is no property {strange[0]!r} of the formatter")
        self._flags = {
            name: properties[name].strip().lower() == "true" if name in properties else default
            for name, default in _FLAGS.items()
        }
        self._texts = {n: properties.get(n, text).encode() for n, text in _TEXTS.items()}
        self._sizes = {name: _size(name, properties.get(name)) for name in _DESERIALIZERS}
        self.late_topics: Collection[str] = ()  # those whose records have the broker's time

    @property
    def has_timestamps(self) -> bool:
        return self._flags["print.timestamp"]

    def __call__(self, record: Consumed) -> bytes:
        cells = [self._cell(name, record) for name, wanted in self._flags.items() if wanted]
        return self._texts["key.separator"].join(cells) + self._texts["line.separator"] * bool(
            cells
        )

    def _cell(self, name: str, record: Consumed) -> bytes:
        match name:
            case "print.timestamp":
                kind = "LogAppendTime" if record.topic in self.late_topics else "CreateTime"
                known = record.timestamp >= 0
                return f"{kind}:{record.timestamp}".encode() if known else b"NO_TIMESTAMP"
            case "print.partition":
                return f"Partition:{record.partition}".encode()
            case "print.offset":
                return f"Offset:{record.offset}".encode()
            case "print.headers":
                pairs = [
                    f"{key}:".encode() + self._value("headers.deserializer", value)
                    for key, value in record.headers
                ]
                return self._texts["headers.separator"].join(pairs) or b"NO_HEADERS"
            case "print.key":
                return self._value("key.deserializer", record.key)
            case _:
                return self._value("value.deserializer", record.value)

    def _value(self, name: str, data: bytes | None) -> bytes:
        size = self._sizes[name]
        if data is None or size is None:
            return self._texts["null.literal"] if data is None else data
        if len(data) != size:
            raise ValueError(f"Size of data received by {name} is not {size}")
        return str(int.from_bytes(data, "big", signed=True)).encode()


def _size(name: str, text: str | None) -> int | None:
    """The bytes of a number, None for what is printed as it is."""
    if text in _INTEGERS:
        return _INTEGERS[text]
    if text is not None and text not in _PLAIN:
        raise ValueError(f"klamm runs no Java, so {name} cannot be {text}")
    return None
