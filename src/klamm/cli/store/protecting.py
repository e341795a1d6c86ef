"""`klamm store protect`: grants of `zookeeper.set.acl` for nodes that are there already.

What Kafka has in zookeeper-security-migration.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Annotated

from klamm.cli.options import Output, OutputOption
from klamm.cli.output import print_json, say
from klamm.cli.parsing.declared import Option
from klamm.cli.store.options import SettingOption
from klamm.cli.store.place import NamedStore, on_zookeeper
from klamm.model.errors import UsageError


def protect(
    zookeeper: Annotated[
        str, Option("--zookeeper", metavar="HOST:PORT[/PATH]", help="the ZooKeeper")
    ],
    setting: SettingOption = None,
    open_: Annotated[
        bool, Option("--open", help="the reverse: give every node to everybody")
    ] = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Protect the nodes of a ZooKeeper as zookeeper.set.acl=true protects new ones.

    Everybody may read them, and whoever is logged in here may change them; credentials are for
    that one alone. The brokers have to log in as the same. They may run meanwhile.

    Example: klamm store protect --zookeeper zk1:2181/klamm -X klamm.zookeeper.digest.file=FILE
    """
    count = asyncio.run(_protect(NamedStore.of(None, zookeeper, setting), opens=open_))
    if output is Output.JSON:
        print_json({"zookeeper": zookeeper, "nodes": count, "protected": not open_})
    else:
        say(f"{count} nodes {'are open to everybody' if open_ else 'are protected'}")


async def _protect(place: NamedStore, *, opens: bool) -> int:
    from klamm.store.access import OPEN
    from klamm.store.browsing import walk
    from klamm.store.imports import protected
    from klamm.store.node_paths import SERVER_NODES

    async with AsyncExitStack() as stack:
        store = await on_zookeeper(stack, place)
        if not opens and not store.door.is_somebody:
            raise UsageError(
                "nobody is logged in, to whom the nodes could belong: name a login with -X, such "
                "as klamm.zookeeper.digest.file=FILE"
            )
        session = await store.connect()
        found = [seen.path async for seen in walk(session, "/")]
        own = [path for path in found if not f"{path}/".startswith(f"{SERVER_NODES[0]}/")]
        # Parents last: who may not change a child any more has still been let in here.
        done = [await session.set_acl(p, OPEN if opens else protected(p)) for p in reversed(own)]
        return sum(done)
