"""Options of the commands that look into a store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DataOption = Annotated[
    Path | None, typer.Option("--data", help="the data directory [$XDG_STATE_HOME/klamm]")
]
ZooKeeperOption = Annotated[
    str | None,
    typer.Option(
        "--zookeeper",
        metavar="HOST:PORT[/PATH]",
        help="a ZooKeeper, or an embedded store that is served as one",
    ),
]
SettingOption = Annotated[
    list[str] | None,
    typer.Option(
        "-X",
        metavar="NAME=VALUE",
        help="how ZooKeeper is reached: zookeeper.ssl.*, klamm.zookeeper.*; repeatable",
    ),
]
PathArgument = Annotated[str, typer.Argument(metavar="[PATH]", help="a node")]
SecretsOption = Annotated[
    bool, typer.Option("--secrets", help="show credentials, which are hidden otherwise")
]
