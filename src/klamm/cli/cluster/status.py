"""`klamm status`: one screen that says whether a cluster is well, and if not, what is wrong."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

from klamm.cli.asking import run
from klamm.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, Output, OutputOption, new_app
from klamm.cli.output import counted, print_json, say
from klamm.cli.parsing.declared import Option
from klamm.cli.reach import Reach
from klamm.cli.times import clock_of
from klamm.client.aio.admin import Admin
from klamm.model.errors import ErrorCode, KlammError, RequestRefused
from klamm.protocol.private import PrivateKey

app = new_app("Show whether a cluster is healthy, and if not, what is wrong.")

Status = dict[str, Any]

_SHOWN: Final = 5  # of a kind, on the screen
_CLEAR: Final = "\x1b[H\x1b[2J"
_TITLE: Final = 13
# Whatever makes a cluster unhealthy, besides brokers that are not up and deletions that halt.
_ILLS: Final = ("offline", "under_replicated", "below_min_isr", "refused")


@app.command()
def status(
    watch: Annotated[bool, Option("--watch", help="show it again and again")] = False,
    every: Annotated[float, Option(help="seconds between two looks of --watch", min=0.2)] = 2.0,
    output: OutputOption = Output.TEXT,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show brokers, controller, partitions, deletions and moves on one screen.

    The exit code is 0 where the cluster is healthy and 1 where it is not.

    Example: klamm status --watch
    """
    while watch:
        _show_again(bootstrap_server, output)
        time.sleep(every)
    found = run(bootstrap_server, look)
    _show(found, output)
    if not found["healthy"]:
        raise SystemExit(1)


def _show_again(bootstrap_server: Reach, output: Output) -> None:
    """One look of many: a cluster that is away for a moment does not end the watch."""
    try:
        found = run(bootstrap_server, look)
    except (KlammError, OSError) as error:
        say(f"klamm: {error}", to=sys.stderr)
        return
    if output is Output.TEXT and sys.stdout.isatty():
        sys.stdout.write(_CLEAR)
    _show(found, output)
    sys.stdout.flush()


def _show(found: Status, output: Output) -> None:
    if output is Output.JSON:
        print_json(found)
    else:
        say(*tell(found, int(time.time() * 1000)))


async def look(admin: Admin) -> Status:
    """The state of a cluster, and whether it is healthy."""
    try:
        found = dict(await admin.ask_controller(PrivateKey.STATUS, {}))
        found.pop("error_code", None)
        found["complete"] = True
    except RequestRefused as refusal:
        if refusal.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
        found = await _look_from_outside(admin)
    found["healthy"] = is_healthy(found)
    return found


def is_healthy(found: Status) -> bool:
    """Whether nothing in a cluster needs anybody's attention."""
    return not (
        any(found[ill]["count"] for ill in _ILLS)
        or any(_ill(broker) for broker in found["brokers"])
        or any(_is_halted(deletion) for deletion in found["deletions"]["items"])
    )


def _ill(broker: Mapping[str, Any]) -> bool:
    is_away = broker["presence"] in ("down", "out of the controller's reach")
    return is_away or bool(broker["offline_logs"])


def _is_halted(deletion: Mapping[str, Any]) -> bool:
    return str(deletion["state"]) == "halted"


async def _look_from_outside(admin: Admin) -> Status:
    """As much as any Kafka tells of itself."""
    from klamm.cli.facts import list_topics

    cluster = await admin.cluster()
    topics = await list_topics(admin)
    partitions = [(topic.name, p) for topic in topics for p in topic.partitions]
    live = {broker.broker_id: broker for broker in cluster.brokers}
    named = {b for _, p in partitions for b in p.replicas}
    offline = [f"{name}-{p.index}" for name, p in partitions if p.leader < 0]
    short = [
        f"{name}-{p.index}"
        for name, p in partitions
        if p.leader >= 0 and len(p.isr) < p.replication_factor
    ]
    return {
        "controller": cluster.controller_id,
        "controller_epoch": None,
        "controller_since_ms": None,
        "topics": len(topics),
        "partitions": len(partitions),
        "brokers": [
            {
                "id": id,
                "presence": "up" if id in live else "down",
                "since_ms": None,
                "address": f"{live[id].host}:{live[id].port}" if id in live else None,
                "rack": live[id].rack if id in live else None,
                "leads": sum(p.leader == id for _, p in partitions),
                "replicas": sum(id in p.replicas for _, p in partitions),
                "offline_logs": 0,
                "refused_orders": 0,
            }
            for id in sorted(named.union(live))
        ],
        "offline": _counted(offline),
        "under_replicated": _counted(short),
        **{name: _counted(()) for name in ("below_min_isr", "deletions", "moves")},
        **{name: _counted(()) for name in ("frozen", "kept", "importing")},
        "refused": _counted(()),
        "complete": False,
    }


def _counted(items: Sequence[str]) -> Status:
    return {"count": len(items), "items": list(items)}


def tell(found: Status, now_ms: int) -> Iterator[str]:
    """The lines of the screen."""
    yield "healthy" if found["healthy"] else "not healthy"
    yield _line("controller", _controller(found, now_ms))
    up = [broker for broker in found["brokers"] if broker["presence"] == "up"]
    yield _line("brokers", f"{len(up)} of {len(found['brokers'])} up")
    yield from (_broker(b, now_ms) for b in found["brokers"] if b not in up or _ill(b))
    yield _line("partitions", _partitions(found))
    yield from _named("offline", found["offline"])
    yield from _named("under-replicated", found["under_replicated"])
    yield from _named("below min.insync.replicas", found["below_min_isr"])
    yield from _section("deletions", found["deletions"], lambda d: _deletion(d, now_ms))
    yield from _section("moves", found["moves"], lambda m: _move(m, now_ms))
    yield from _section("frozen", found["frozen"], lambda name: f"topic {name} takes no records")
    yield from _section("kept", found.get("kept", _counted(())), _kept)
    yield from _section("importing", found.get("importing", _counted(())), _importing)
    yield from _section("refused", found["refused"], _refused)
    if not found["complete"]:
        yield "This cluster is not klamm's: deletions, moves and min.insync.replicas are not shown."


def _kept(kept: Mapping[str, Any]) -> str:
    return f"topic {kept['topic']} is kept until {clock_of(kept['until_ms'])}, and then deleted"


def _importing(name: str) -> str:
    by = "`klamm restore --exact` or `klamm repartition`"
    return f"topic {name} is being filled by {by}, and takes no other records"


def _line(title: str, text: str) -> str:
    return f"{title:{_TITLE}}{text}"


def _controller(found: Status, now_ms: int) -> str:
    if found["controller_epoch"] is None:
        return f"broker {found['controller']}"
    since = _age(found["controller_since_ms"], now_ms)
    return f"broker {found['controller']}, epoch {found['controller_epoch']}, for {since}"


def _broker(broker: Mapping[str, Any], now_ms: int) -> str:
    since = "" if broker["since_ms"] is None else f" for {_age(broker['since_ms'], now_ms)}"
    text = f"broker {broker['id']} is {broker['presence']}{since}"
    if broker["offline_logs"]:
        text += f", {counted(broker['offline_logs'], 'replica')} in failed log directories"
    return f"  {text} ({counted(broker['replicas'], 'replica')})"


def _partitions(found: Status) -> str:
    ills = [
        f"{found['offline']['count']:,} offline",
        f"{found['under_replicated']['count']:,} under-replicated",
        f"{found['below_min_isr']['count']:,} below min.insync.replicas",
    ]
    where = f"{found['partitions']:,} in {counted(found['topics'], 'topic')}"
    return f"{where}: {', '.join(ills)}"


def _named(title: str, found: Mapping[str, Any]) -> Iterator[str]:
    if found["count"]:
        yield f"  {title}: {', '.join(found['items'][:_SHOWN])}{_more(found)}"


def _section(title: str, found: Mapping[str, Any], form: Any) -> Iterator[str]:
    if not found["count"]:
        return
    yield _line(title, f"{found['count']:,}")
    yield from (f"  {form(item)}" for item in found["items"][:_SHOWN])
    if found["count"] > _SHOWN:
        yield f"  ...{_more(found)}"


def _more(found: Mapping[str, Any]) -> str:
    rest = found["count"] - _SHOWN
    return f" and {rest:,} more (-o json lists them)" if rest > 0 else ""


def _deletion(deletion: Mapping[str, Any], now_ms: int) -> str:
    topic, state = deletion["topic"], str(deletion["state"])
    text = f"{topic}: {state} for {_age(deletion['since_ms'], now_ms)}"
    if not _is_halted(deletion):
        return text
    waits = ", ".join(f"broker {broker}" for broker in deletion["waits_for"])
    why = f"waits for {waits}" if waits else deletion["why_halted"] or "waits"
    return f"{text}, {why}; klamm topics explain {topic} says how to go on"


def _move(move: Mapping[str, Any], now_ms: int) -> str:
    done = f"{len(move['caught_up'])} of {len(move['adding'])} new replicas in sync"
    leaves = ", ".join(map(str, move["removing"])) or "none"
    return f"{move['partition']}: {done}, leaves {leaves}, for {_age(move['since_ms'], now_ms)}"


def _refused(order: Mapping[str, Any]) -> str:
    return f"broker {order['broker']} refuses to serve {order['partition']}"


def _age(since_ms: int, now_ms: int) -> str:
    """The time since something happened, in its two largest units."""
    seconds = max(0, now_ms - since_ms) // 1000
    for unit, length, part, short in (("d", 86400, "h", 3600), ("h", 3600, "min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit} {seconds % length // short} {part}"
    return f"{seconds // 60} min" if seconds >= 60 else f"{seconds} s"
