"""The controller's core alone, from 1,000 to 200,000 partitions: bytes a partition, cost of events.

    python bench/controller_scale.py [--partitions N ...] [--rounds N] [--write]

The store says yes to everything at once and no broker answers, so what is measured is the deciding:
the context, the machines and the making of requests. Small events should cost the same whatever the
size of the cluster, and a large event (a failover, a broker's end) the same for each partition.

What is counted is the processor's time, which is not free of others: whoever shares its caches
slows it down, by half and more. So all sizes meet the same machine. Small events take turns, one at
each size and then the next; of large ones there are as many, one after the other, as come to the
same number of partitions, half of them before the largest size has its turn and half behind. A
small cluster that is looked at alone lives in the processor's cache, and a quick run hits a quiet
moment; neither says anything about the code. The last line is the largest size over the smallest.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from statistics import median

from klamm.controller import events
from klamm.controller.core import Core
from klamm.controller.effects import LeaderAndIsr, RewriteTopic, Stored, Write
from klamm.controller.events import IsrChange
from klamm.model.assignment import Assignment
from klamm.model.brokers import Endpoint, Registration
from klamm.model.errors import ErrorCode
from klamm.model.leadership import Leadership
from klamm.model.names import BrokerId, TopicPartition
from klamm.model.topics import StoredTopic

BROKERS = 12
PARTITIONS_A_TOPIC = 10
REPEATS = 200
RESULTS = Path(__file__).parent / "results"


Figures = dict[str, float]


def brokers() -> dict[BrokerId, Registration]:
    return {
        BrokerId(id): Registration(id=BrokerId(id), epoch=1, endpoints=(Endpoint("host", id),))
        for id in range(BROKERS)
    }


def topic_node(number: int) -> StoredTopic:
    return StoredTopic(
        topic_id=uuid.UUID(int=number + (1 << 64)),
        partitions={
            p: Assignment(tuple(BrokerId((number + p + r * 3) % BROKERS) for r in range(3)))
            for p in range(PARTITIONS_A_TOPIC)
        },
    )


def facts(partitions: int) -> events.TermBegan:
    topics = {f"topic-{n}": topic_node(n) for n in range(partitions // PARTITIONS_A_TOPIC)}
    states = {
        TopicPartition(name, p): Leadership(
            leader=assignment.replicas[0],
            leader_epoch=0,
            # As decoding a node would: a tuple of its own for each partition.
            isr=tuple(BrokerId(broker) for broker in assignment.replicas),
            controller_epoch=1,
        )
        for name, node in topics.items()
        for p, assignment in node.partitions.items()
    }
    return events.TermBegan(brokers=brokers(), topics=topics, states=states)


def run(core: Core, event: events.Event) -> object:
    decision = core.decide(event)
    while decision.writes or decision.goes_on:
        decision = core.settle(decision, [_yes(write) for write in decision.writes])
    return decision.answer


def _yes(write: Write) -> Stored:
    return Stored(write.node.version + 1 if isinstance(write, RewriteTopic) else 0)


def usual(costs: Iterable[float]) -> float:
    """The lower quartile, as others use the processor too."""
    ranked = sorted(costs)
    return ranked[len(ranked) // 4]


def cost_us(step: Callable[[], object]) -> float:
    begin = time.process_time_ns()
    step()
    return (time.process_time_ns() - begin) / 1000


def size_bytes(root: object) -> int:
    """The memory of everything that hangs on an object, shared parts counted once."""
    seen: set[int] = set()
    todo: list[object] = [root]
    total = 0
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type | Enum):
            continue
        seen.add(id(thing))
        total += sys.getsizeof(thing)
        if isinstance(thing, dict):
            todo += thing.keys()
            todo += thing.values()
        elif isinstance(thing, tuple | list | set | frozenset):
            todo += thing
        elif not isinstance(thing, str | int):
            slots = getattr(type(thing), "__slots__", ())
            todo += [getattr(thing, name) for name in slots if hasattr(thing, name)]
    return total


@contextmanager
def no_collector() -> Iterator[None]:
    """The collector's cost is the process's: it looks at all young objects, whoever made them."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


Work = Callable[[Core, int], Callable[[], object]]


def large_events(partitions: int) -> tuple[float, float, int]:
    """A controller takes over, and then loses a broker; what that costs, and what it hosted."""
    core, began = Core(BrokerId(0), 2), facts(partitions)
    rest = brokers()
    del rest[BrokerId(5)]
    with no_collector():
        failover = cost_us(partial(run, core, began))
        del began
        hosted = len(core.context.hosted[BrokerId(5)])
        loss = cost_us(lambda: run(core, events.BrokersChanged(rest)))
    return failover, loss, hosted


def large_round(sizes: Sequence[int]) -> dict[int, Figures]:
    """As many large events at each size as come to the same number of partitions."""
    largest = max(sizes)
    turns = [n for n in sizes for _ in range(max(1, largest // n // 2))]
    seen: dict[int, list[tuple[float, float, int]]] = {size: [] for size in sizes}
    for size in [*turns, *reversed([n for n in turns if n != largest])]:
        seen[size].append(large_events(size))
    return {
        size: {
            "failover_us_a_partition": sum(f for f, _, _ in costs) / (len(costs) * size),
            "broker_loss_us_a_partition": sum(c for _, c, _ in costs) / sum(h for _, _, h in costs),
        }
        for size, costs in seen.items()
    }


def small_round(sizes: Sequence[int]) -> dict[int, Figures]:
    """What happens all the time, at each size in turn."""
    cores = {size: Core(BrokerId(0), 2) for size in sizes}
    found: dict[int, Figures] = {size: {} for size in sizes}
    with no_collector():
        for size, core in cores.items():
            run(core, facts(size))
        for name, work in SMALL.items():
            costs: dict[int, list[float]] = {size: [] for size in sizes}
            for at in range(REPEATS):
                for size, core in cores.items():
                    costs[size].append(cost_us(work(core, at)))
            for size in sizes:
                found[size][name] = usual(costs[size])
    return found


def memory(partitions: int) -> float:
    """Bytes that a controller needs for a partition."""
    core = Core(BrokerId(0), 2)
    run(core, facts(partitions))
    return size_bytes(core.context) / partitions


def some_partition(at: int) -> TopicPartition:
    return TopicPartition(f"topic-{at % 50}", at % PARTITIONS_A_TOPIC)


def create(core: Core, at: int) -> Callable[[], object]:
    event = events.TopicsChanged({f"new-{at}": topic_node(10**7 + at)})
    return lambda: run(core, event)


def change_isr(core: Core, at: int) -> Callable[[], object]:
    id = some_partition(at)
    partition = core.context.partition(id)
    assert partition is not None
    assert partition.leadership is not None
    now = partition.leadership
    isr = now.isr[:2] if len(now.isr) == 3 else partition.assignment.replicas
    change = IsrChange(
        topic=id.topic,
        partition=id.partition,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        isr=isr,
    )
    ask = events.IsrChangesAsked(broker=now.leader, broker_epoch=1, changes=(change,))
    return lambda: run(core, ask)


def answer(core: Core, at: int) -> Callable[[], object]:
    id = some_partition(at)
    topic_ids = {id.topic: core.context.topics[id.topic].id}
    request = LeaderAndIsr(
        to=BrokerId(1), broker_epoch=1, orders=(), topic_ids=topic_ids, leaders=()
    )
    said = events.LeaderAndIsrAnswered(request, ErrorCode.NONE, {id: ErrorCode.NONE})
    return lambda: run(core, said)


def elect(core: Core, at: int) -> Callable[[], object]:
    ask = events.ElectionsAsked(events.ElectionType.PREFERRED, (some_partition(at),))
    return lambda: run(core, ask)


def delete(core: Core, at: int) -> Callable[[], object]:
    return lambda: run(core, events.MarkersChanged((f"new-{at}",)))


SMALL: dict[str, Work] = {
    "create_topic_us": create,
    "isr_change_us": change_isr,
    "answer_us": answer,
    "election_us": elect,
    "delete_topic_us": delete,
}


def measure(sizes: Sequence[int], rounds: int) -> dict[int, Figures]:
    """The usual cost of everything at each size."""
    seen: dict[int, list[Figures]] = {size: [] for size in sizes}
    for _ in range(rounds):
        large, small = large_round(sizes), small_round(sizes)
        for size in sizes:
            seen[size].append(large[size] | small[size])
    return {
        size: {name: median(f[name] for f in figures) for name in figures[0]}
        | {"bytes_a_partition": memory(size)}
        for size, figures in seen.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="*", default=[1000, 10_000, 200_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="to bench/results, as JSON")
    options = parser.parse_args()
    found = measure(sorted(options.partitions), options.rounds)
    first, last = found[min(found)], found[max(found)]
    ratios = {name: last[name] / first[name] for name in first}
    print(f"{'partitions':>12}" + "".join(f"{name:>28}" for name in first))
    for size, figures in found.items():
        print(f"{size:>12}" + "".join(f"{figures[name]:>28.1f}" for name in first))
    print(f"{'ratio':>12}" + "".join(f"{ratios[name]:>28.2f}" for name in first))
    if options.write:
        rows = [
            {"partitions": size, **{name: round(value, 2) for name, value in figures.items()}}
            for size, figures in found.items()
        ]
        content = {
            "measures": rows,
            "largest_over_smallest": {name: round(ratio, 3) for name, ratio in ratios.items()},
        }
        path = RESULTS / time.strftime("controller-scale-%Y%m%d-%H%M%S.json")
        path.write_text(json.dumps(content, indent=2) + "\n")
        print(f"written to {path}")


if __name__ == "__main__":
    main()
