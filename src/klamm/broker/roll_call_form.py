"""The answer to a roll call as it travels.

Ids and epochs travel as flat lists of numbers, so that the answer of a broker with ten thousand
replicas is a tenth of a megabyte: `{"replicas": {topic id: [index, leader epoch, index, ...]},
"metadata": {topic: digest}}`. What a broker does not say it is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from klamm.controller.membership.roll_call import Holdings
from klamm.model.errors import ProtocolError
from klamm.model.names import id_from_text, id_text


def to_json(held: Holdings) -> dict[str, Any]:
    """The holdings as they travel."""
    return {
        "replicas": {
            id_text(topic_id): [number for pair in epochs.items() for number in pair]
            for topic_id, epochs in held.replicas.items()
        },
        "metadata": dict(held.metadata),
    }


def from_json(answer: Mapping[str, Any]) -> Holdings:
    """The inverse of `to_json`; nonsense is a `ProtocolError`."""
    try:
        replicas = {
            id_from_text(topic_id): dict(zip(flat[::2], flat[1::2], strict=True))
            for topic_id, flat in answer["replicas"].items()
        }
        return Holdings(replicas, dict(answer["metadata"]))
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise ProtocolError(f"the answer to a roll call makes no sense: {fault}") from fault
