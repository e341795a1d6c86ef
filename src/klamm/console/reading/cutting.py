"""The picture cut to one viewer: no trace of what they may not know of, in counts neither.

One reader looks for all with the console's own right, so that a secured cluster's rules have to be
kept here: a view is given a picture in which other topics and groups do not exist.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from klamm.console.reading.picture import ILLEGAL_MAX, LINES_MAX, Picture

Json = dict[str, Any]


def cut(picture: Picture, topics: frozenset[str], groups: frozenset[str]) -> Picture:
    """The same moment, with these topics and groups and no others."""
    kept = {name: topic for name, topic in picture.topics.items() if name in topics}
    return replace(
        picture,
        topics=kept,
        status=_status(picture, topics, kept),
        lines=deque((x for x in picture.lines if x["topic"] in topics), LINES_MAX),
        illegal=deque((x for x in picture.illegal if x["topic"] in topics), ILLEGAL_MAX),
        waits=[wait for wait in picture.waits if wait["topic"] in topics],
        offsets={key: value for key, value in picture.offsets.items() if key[0] in topics},
        sizes={key: value for key, value in picture.sizes.items() if key[0] in topics},
        dirs={
            broker: [{**each, "logs": None, "bytes": None} for each in dirs]
            for broker, dirs in picture.dirs.items()
        },
        groups={n: _group(g, topics) for n, g in picture.groups.items() if n in groups},
        copied={n: c for n, c in picture.copied.items() if n.rpartition("-")[0] in topics},
    )


def _group(group: Mapping[str, Any], topics: frozenset[str]) -> Json:
    if "offsets" not in group:
        return dict(group)
    return {**group, "offsets": [row for row in group["offsets"] if row["topic"] in topics]}


def _status(picture: Picture, topics: frozenset[str], kept: Mapping[str, Any]) -> Json:
    """Lists cut, and brokers with the replicas that are left of them."""
    partitions = [p for topic in kept.values() for p in topic.partitions]
    leads = Counter(p.leader for p in partitions)
    held = Counter(broker for p in partitions for broker in p.replicas)
    found: Json = {}
    for name, value in picture.status.items():
        if isinstance(value, dict) and "items" in value:
            items = [item for item in value["items"] if _topic_of(item, topics) in topics]
            found[name] = {"count": len(items), "items": items}
        else:
            found[name] = value
    found["brokers"] = [
        {
            **broker,
            "leads": leads[broker["id"]],
            "replicas": held[broker["id"]],
            "offline_logs": None,
            "refused_orders": None,
        }
        for broker in picture.brokers
    ]
    for name, count in (("topics", len(kept)), ("partitions", len(partitions))):
        if name in found:
            found[name] = count
    return found


def _topic_of(item: Any, topics: frozenset[str]) -> str:
    """The topic of a list's item: a name, a partition's name, or an object with one of them."""
    if isinstance(item, Mapping):
        if "topic" in item:
            return str(item["topic"])
        return str(item.get("partition", "")).rpartition("-")[0]
    return item if item in topics else str(item).rpartition("-")[0]
