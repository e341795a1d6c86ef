"""`klamm store ls|get|tree|stat`: what is in a store, explained."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from klamm.cli.options import Output, OutputOption
from klamm.cli.output import print_json, say, say_text, table
from klamm.cli.parsing.declared import Argument, Option
from klamm.cli.store.options import (
    DataOption,
    PathArgument,
    SecretsOption,
    SettingOption,
    ZooKeeperOption,
)
from klamm.cli.store.place import NamedStore, Opened, opened
from klamm.model.errors import UsageError
from klamm.model.text import json_text

if TYPE_CHECKING:
    from klamm.store.browsing import Seen

T = TypeVar("T")
_WIDTH: Final = 100
_DENIED: Final = "(may not be read)"
_PERMISSIONS: Final = {1: "read", 2: "write", 4: "create", 8: "delete", 16: "admin"}


def ls(
    path: PathArgument = "/",
    data: DataOption = None,
    zookeeper: ZooKeeperOption = None,
    setting: SettingOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the nodes below a node.

    Example: klamm store ls /brokers/topics --data DIR
    """
    from klamm.store.browsing import join
    from klamm.store.layout.kinds import kind_of

    async def read(store: Opened) -> list[Seen]:
        names = await store.browser.children(path)
        if names is None:
            raise _missing(path)
        found = await store.browser.look([join(path, name) for name in names])
        return [seen for seen in found if seen is not None]

    rows = [
        {
            "name": seen.path.rpartition("/")[2],
            "kind": kind_of(seen.path).title,
            "version": seen.facts.version if seen.facts else None,
            "children": seen.facts.children_count if seen.facts else None,
            "bytes": seen.facts.data_length if seen.facts else None,
            "ephemeral": seen.is_ephemeral,
        }
        for seen in _look(NamedStore.of(data, zookeeper, setting), path, read)
    ]
    if output is Output.JSON:
        print_json(rows)
    elif rows:
        headers = ("name", "kind", "version", "children", "bytes")
        cells = [["-" if row[h] is None else row[h] for h in headers] for row in rows]
        say_text(table(headers, cells))


def get(
    path: Annotated[str, Argument(help="a node")],
    data: DataOption = None,
    zookeeper: ZooKeeperOption = None,
    setting: SettingOption = None,
    secrets: SecretsOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Print what a node holds, and what it means.

    Example: klamm store get /brokers/topics/orders --zookeeper zk1:2181/klamm
    """
    from klamm.store.layout.kinds import is_secret, kind_of, payload

    seen = _look(NamedStore.of(data, zookeeper, setting), path, lambda store: _one(store, path))
    kind = kind_of(path)
    value = payload(path, seen.data, secrets=secrets)
    if output is Output.JSON:
        told = {"path": path, "kind": kind.title, "meaning": kind.meaning}
        print_json(told | {"secret": is_secret(path), "data": value, "stat": _stat(seen)})
        return
    say(path, f"{kind.title}: {kind.meaning}")
    if seen.is_denied:
        say(f"{_DENIED}: log in as the brokers do")
        return
    say("")
    if isinstance(value, str):
        say(value or "(empty)")  # a stranger's text stays on one line
    else:
        say_text("(no data)" if value is None else json_text(value, 2))
    fields = [(name, kind.fields[name]) for name in kind.fields if _has(value, name)]
    if fields:
        say("")
        say_text(table(("field", "meaning"), fields))


def tree(
    path: PathArgument = "/",
    data: DataOption = None,
    zookeeper: ZooKeeperOption = None,
    setting: SettingOption = None,
    depth: Annotated[int | None, Option(min=0, help="how many levels to go down [all]")] = None,
    secrets: SecretsOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Print the nodes below a node, each with what it holds on one line.

    Example: klamm store tree /config --depth 2
    """
    from klamm.store.browsing import walk

    deepest = _level(path) + depth if depth is not None else sys.maxsize

    async def read(store: Opened) -> list[Seen]:
        found = []
        async for seen in walk(store.browser, path):
            if _level(seen.path) > deepest:
                break  # level by level: nothing that follows is higher
            found.append(seen)
        if not found:
            raise _missing(path)
        return found

    nodes = _look(NamedStore.of(data, zookeeper, setting), path, read)
    nodes.sort(key=lambda seen: seen.path.split("/"))
    if output is Output.JSON:
        print_json({seen.path: _held(seen, secrets) for seen in nodes})
        return
    for seen in nodes:
        value = one_line(_held(seen, secrets))
        name = seen.path if seen.path == path else seen.path.rpartition("/")[2]
        mark = " (ephemeral)" if seen.is_ephemeral else ""
        indent = "  " * (_level(seen.path) - _level(path))
        say(f"{indent}{name}{mark}{'  ' if value else ''}{value}")


def stat(
    path: PathArgument = "/",
    data: DataOption = None,
    zookeeper: ZooKeeperOption = None,
    setting: SettingOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Print what the store knows of a node besides its data: versions, times, grants.

    Example: klamm store stat /controller_epoch
    """
    seen = _look(
        NamedStore.of(data, zookeeper, setting), path, lambda store: _one(store, path, acls=True)
    )
    facts = _stat(seen)
    grants = [{"who": f"{g.scheme}:{g.id}", "may": _may(g.perms)} for g in seen.acl]
    if output is Output.JSON:
        print_json({"path": path, "stat": facts, "acl": grants})
        return
    if facts is None:
        say(f"{path} {_DENIED}: log in as the brokers do")
        return
    rows = [(name, facts[name], meaning) for name, meaning in _MEANINGS.items()]
    say_text(table(("field", "value", "meaning"), rows))
    say("")
    say_text(table(("who", "may"), [(g["who"], ", ".join(g["may"])) for g in grants]))


_MEANINGS: Final = {
    "version": "how often its data was set",
    "cversion": "how often a child was made or removed",
    "aversion": "how often its grants were changed",
    "created": "when it was made",
    "modified": "when its data was last set",
    "czxid": "the transaction that made it",
    "mzxid": "the transaction that last set its data",
    "pzxid": "the transaction that last made or removed a child",
    "ephemeral_owner": "the session it goes with; 0x0: it stays",
    "data_length": "bytes",
    "children": "nodes below it",
}


def _stat(seen: Seen) -> dict[str, Any] | None:
    facts = seen.facts
    if facts is None:
        return None
    return {
        "version": facts.version,
        "cversion": facts.cversion,
        "aversion": facts.aversion,
        "created": _time(facts.ctime_ms),
        "modified": _time(facts.mtime_ms),
        "czxid": hex(facts.czxid),
        "mzxid": hex(facts.mzxid),
        "pzxid": hex(facts.pzxid),
        "ephemeral_owner": hex(facts.ephemeral_owner & 0xFFFF_FFFF_FFFF_FFFF),
        "data_length": facts.data_length,
        "children": facts.children_count,
    }


def _look(place: NamedStore, path: str, read: Callable[[Opened], Awaitable[T]]) -> T:
    check_path(path)

    async def look() -> T:
        async with opened(place) as store:
            if store.lacks:
                say(f"klamm: {store.lacks}", to=sys.stderr)
            return await read(store)

    return asyncio.run(look())


def check_path(path: str) -> None:
    """Refuse what can be no node."""
    from klamm.store.node_paths import is_valid

    if not is_valid(path):
        raise UsageError(f"{path!r} is no path of a node, such as /brokers/topics")


async def _one(store: Opened, path: str, *, acls: bool = False) -> Seen:
    (seen,) = await store.browser.look([path], acls=acls)
    if seen is None:
        raise _missing(path)
    return seen


def _missing(path: str) -> UsageError:
    return UsageError(f"there is no node {path}")


def _held(seen: Seen, secrets: bool) -> Any:
    from klamm.store.layout.kinds import payload

    return _DENIED if seen.is_denied else payload(seen.path, seen.data, secrets=secrets)


def _level(path: str) -> int:
    return 0 if path == "/" else path.count("/")


def _has(value: object, name: str) -> bool:
    return isinstance(value, dict) and name in value


def one_line(value: object) -> str:
    """A value on one line, cut where it is long."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json_text(value)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def _may(perms: int) -> list[str]:
    return [word for bit, word in _PERMISSIONS.items() if perms & bit]


def _time(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return str(at_ms)
