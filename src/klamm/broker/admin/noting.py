"""Notes for the controller: it hears who asks for a change, whichever broker writes it.

The ledger is the controller's. A change of settings is written by the broker that was asked, and a
topic that comes into being by being asked for is created by way of another broker; the controller
sees only the node. So its requester is told first. Where that fails the change is made all the
same: the line then names nobody, as with whatever is done by hand.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Literal, Protocol

from klamm.broker.metadata_cache import MetadataCache
from klamm.broker.net.peers import Peers
from klamm.model.errors import KlammError
from klamm.protocol.private import PrivateKey
from klamm.repeats import limited

log = limited(logging.getLogger(__name__))

_PATIENCE_S: Final = 2.0

Kind = Literal["settings", "creation"]


class Notes(Protocol):
    """The controller's own notes."""

    def note_settings(self, topics: Sequence[str], by: str) -> None: ...


class Controller(Protocol):
    """The controller's part of this broker."""

    @property
    def requesters(self) -> Notes: ...


class NotingHost(Protocol):
    """The services this needs of its broker."""

    @property
    def is_controller(self) -> bool: ...

    @property
    def controller(self) -> Controller: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def peers(self) -> Peers: ...


async def note_settings(host: NotingHost, topics: Sequence[str], by: str) -> None:
    """Somebody is about to change settings of these topics; '': nothing came of it."""
    if host.is_controller:
        host.controller.requesters.note_settings(topics, by)
    else:
        await tell_controller(host, "settings", topics, by)


async def tell_controller(host: NotingHost, kind: Kind, topics: Sequence[str], by: str) -> None:
    """Have the controller know who is about to change these; '' when nothing came of it."""
    controller = host.metadata.snapshot.controller_id
    endpoint = host.peers.endpoint(controller)
    if endpoint is None or not topics:
        return
    try:
        async with asyncio.timeout(_PATIENCE_S):
            if not await host.peers.proves(controller):
                return  # a broker of another kind keeps no such notes
            connection = await host.peers.connect(controller, endpoint, "requester")
            try:
                await connection.ask(
                    PrivateKey.NOTE, {"kind": kind, "topics": list(topics), "by": by}
                )
            finally:
                await connection.close()
    except (OSError, KlammError, TimeoutError) as fault:
        log.info("the controller was not told who asks", extra={"why": str(fault)})
