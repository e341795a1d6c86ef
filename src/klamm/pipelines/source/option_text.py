"""Options as they come: text, looked up without regard to case, turned into values or refused."""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Mapping
from typing import Final

from klamm.client.security import NAMES
from klamm.client.security.settings import check_names
from klamm.model.errors import UsageError

log = logging.getLogger(__name__)

# Spark hands its own options of a stream to the sink as well.
_SPARK: Final = frozenset({"checkpointLocation", "queryName", "outputMode", "mode", "truncate"})

_HONOURED: Final = frozenset(
    {
        "bootstrap.servers",
        "group.id",
        "isolation.level",
        "fetch.max.bytes",
        "max.partition.fetch.bytes",
        "fetch.max.wait.ms",
        "client.id",
        "client.rack",
        "request.timeout.ms",
        "acks",
        "compression.type",
        "batch.size",
        "max.request.size",
        "delivery.timeout.ms",
        "transaction.timeout.ms",
        *NAMES,
    }
)

_REFUSED: Final[Mapping[str, str]] = {
    "auto.offset.reset": "use the option startingOffsets",
    "key.deserializer": "keys are binary: cast them in a select",
    "value.deserializer": "values are binary: cast them in a select",
    "key.serializer": "keys are binary or text: cast them in a select",
    "value.serializer": "values are binary or text: cast them in a select",
    "enable.auto.commit": "use the option commitOffsets",
    "interceptor.classes": "there is no interceptor: work on the columns instead",
    "partitioner.class": "use the option partitioner",
    "transactional.id": "use the option delivery=exactly-once, which makes its own",
}

_TOPICS: Final = {"topic": "subscribe", "topics": "subscribe", "subscribe": "topic"}

_SIZES: Final = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20}

_SIZES_LARGE: Final = {"g": 1 << 30, "gb": 1 << 30}

_TIMES: Final = {
    "": 1,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class Given:
    """The options as they came, with lower-case keys and typed look-ups."""

    def __init__(self, options: Mapping[str, str], known: frozenset[str]) -> None:
        self.values = {key.lower(): value for key, value in options.items()}
        self._names = {name.lower(): name for name in known}
        spark = {name.lower() for name in _SPARK}
        for key in self.values:
            if key.startswith("kafka."):
                self._check_kafka(key.removeprefix("kafka."))
            elif key not in self._names and key not in spark:
                raise UsageError(self._unknown(key))

    def _check_kafka(self, key: str) -> None:
        if key in _REFUSED:
            raise UsageError(f"the option kafka.{key} is not supported: {_REFUSED[key]}")
        if key not in _HONOURED:
            check_names([key])
            log.warning("the option kafka.%s has no effect on klamm's data source", key)

    def _unknown(self, key: str) -> str:
        if key == "path":
            return "a topic has no path: name it with the option subscribe (or topic, to write)"
        if key in _HONOURED:
            return f"unknown option {key}; did you mean kafka.{key}?"
        if key in _TOPICS and _TOPICS[key] in self._names:
            return f"unknown option {key}; here, name the topic with {_TOPICS[key]}"
        near = difflib.get_close_matches(key, self._names, n=1)
        hint = f"; did you mean {self._names[near[0]]}?" if near else ""
        return f"unknown option {key}{hint}"

    def text(self, name: str) -> str | None:
        return self.values.get(name.lower())

    def trimmed(self, name: str) -> str | None:
        value = self.text(name)
        return None if value is None else value.strip()

    def flag(self, name: str, default: bool) -> bool:
        value = self.values.get(name.lower())
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise UsageError(f"option {name}: {value!r} is neither true nor false")
        return value.lower() == "true"

    def number(self, name: str, default: int, *, least: int = 1) -> int:
        found = self.maybe_number(name, least=least)
        return default if found is None else found

    def maybe_number(self, name: str, *, least: int = 1) -> int | None:
        value = self.values.get(name.lower())
        if value is None:
            return None
        if not re.fullmatch(r"[+-]?\d+", value.strip()) or int(value) < least:
            raise UsageError(f"option {name}: {value!r} is not a whole number of at least {least}")
        return int(value)

    def size(self, name: str, default: int | None) -> int | None:
        return self._scaled(name, {**_SIZES, **_SIZES_LARGE}, default, "a size such as 8m")

    def time(self, name: str, default: int) -> int:
        found = self._scaled(name, _TIMES, default, "a time such as 500ms, 30s or 15m")
        assert found is not None
        return found

    def _scaled(
        self, name: str, scale: Mapping[str, int], default: int | None, wanted: str
    ) -> int | None:
        value = self.values.get(name.lower())
        if value is None:
            return default
        match = re.fullmatch(r"(\d+)\s*([a-z]*)", value.strip().lower())
        if match is None or match[2] not in scale:
            raise UsageError(f"option {name}: {value!r} is not {wanted}")
        return int(match[1]) * scale[match[2]]

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self.values.get(name.lower(), default)
        for known in choices:
            if known.lower() == value.strip().lower():
                return known
        raise UsageError(f"option {name}: {value!r} is none of {', '.join(choices)}")
