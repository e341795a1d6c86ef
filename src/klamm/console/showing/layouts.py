"""The places at which the states of the three machines are drawn.

Left to right is birth to service; the way out runs back along the bottom. Every state of the
tables has a place, which a test holds; the transitions are drawn from the tables themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

NODE_WIDTH: Final = 140
NODE_HEIGHT: Final = 28

_PLACES: Final[Mapping[str, Mapping[str, tuple[int, int]]]] = {
    "topic": {
        "absent": (10, 90),
        "created": (190, 20),
        "growing": (370, 20),
        "frozen": (370, 90),
        "queued for deletion": (190, 160),
        "halted": (370, 160),
        "deleting": (190, 230),
    },
    "partition": {
        "NonExistent": (10, 60),
        "New": (190, 20),
        "Online": (370, 20),
        "Offline": (370, 120),
    },
    "replica": {
        "NonExistent": (10, 90),
        "New": (190, 20),
        "Online": (370, 20),
        "Offline": (370, 110),
        "DeletionStarted": (370, 200),
        "DeletionSuccessful": (10, 200),
        "DeletionIneligible": (180, 270),
    },
}
_SIZES: Final[Mapping[str, tuple[int, int]]] = {
    "topic": (520, 270),
    "partition": (520, 165),
    "replica": (520, 310),
}


def placed(machine: Mapping[str, Any]) -> dict[str, Any]:
    """A machine with the place of each state; one that is not known here is put below the rest."""
    entity = machine["entity"]
    places = _PLACES.get(entity, {})
    width, height = _SIZES.get(entity, (500, 40))
    nodes = []
    strange = 0
    for state in machine["states"]:
        place = places.get(state)
        if place is None:
            place = (10 + 130 * (strange % 4), height + 40 * (strange // 4))
            strange += 1
        nodes.append({"state": state, "x": place[0], "y": place[1]})
    return {
        "id": entity,
        "entity": entity,
        "nodes": nodes,
        "transitions": machine["transitions"],
        "found": machine["found"],
        "never": machine["never"],
        "width": width,
        "height": height + 40 * -(-strange // 4),
        "node_width": NODE_WIDTH,
        "node_height": NODE_HEIGHT,
    }
