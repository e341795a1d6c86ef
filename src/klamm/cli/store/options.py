"""Options of the commands that look into a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from klamm.cli.parsing.declared import Argument, Option

DataOption = Annotated[
    Path | None, Option("--data", help="the data directory [$XDG_STATE_HOME/klamm]")
]
ZooKeeperOption = Annotated[
    str | None,
    Option(
        "--zookeeper",
        metavar="HOST:PORT[/PATH]",
        help="a ZooKeeper, or an embedded store that is served as one",
    ),
]
SettingOption = Annotated[
    list[str] | None,
    Option(
        "-X",
        metavar="NAME=VALUE",
        help="how ZooKeeper is reached: zookeeper.ssl.*, klamm.zookeeper.*; repeatable",
    ),
]
PathArgument = Annotated[str, Argument(metavar="[PATH]", help="a node")]
SecretsOption = Annotated[
    bool, Option("--secrets", help="show credentials, which are hidden otherwise")
]
