"""A broker's place in the store: the ground it stands on, and its own node.

A registration lives as long as the session that made it. The transaction that created the node is
the broker's epoch: a broker that registers again is a new one to everybody else.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import uuid
from typing import Final

from klamm.broker.net.proof import KEY_SIZE, ClusterSecret
from klamm.model.brokers import Registration
from klamm.model.errors import StoreUnavailable, UsageError
from klamm.model.names import BrokerId, id_text, is_usable_id
from klamm.security.listeners.handing_out import clashing
from klamm.store import layout
from klamm.store.port import Create, Delete, Node, Outcome, Session, SetData

log = logging.getLogger(__name__)

_ATTEMPTS = 5
# ZooKeeper counts sessions in ticks of its own, and all of them begin anew when its servers elect
# a leader: a process that was killed may be missed much later than its session lasts.
_MISSED_LATE_S: Final = 30.0


async def prepare(session: Session) -> str:
    """Make sure of the nodes every broker relies on. Returns the cluster's id."""
    paths = layout.with_parents([*layout.ROOTS, layout.parent(layout.CLUSTER_ID)])
    existing = await session.get_many(paths)
    missing = [path for path, node in zip(paths, existing, strict=True) if node is None]
    await session.multis([Create(path)] for path in missing)
    return await _cluster_id(session)


async def _cluster_id(session: Session) -> str:
    node = await session.get(layout.CLUSTER_ID)
    if node is None:
        drawn = uuid.uuid4()
        while not is_usable_id(drawn):
            drawn = uuid.uuid4()
        # Several brokers may start at once; whoever comes second reads what the first has drawn.
        await session.multi([Create(layout.CLUSTER_ID, layout.encode_cluster_id(id_text(drawn)))])
        node = await session.get(layout.CLUSTER_ID)
    cluster_id = layout.decode_cluster_id(node.data) if node is not None else None
    if cluster_id is None:
        raise UsageError(f"the store's {layout.CLUSTER_ID} cannot be read")
    return cluster_id


async def cluster_secret(session: Session) -> ClusterSecret:
    """The secret of this cluster's brokers; the first of them draws it."""
    node = await session.get(layout.CLUSTER_SECRET)
    if node is None:
        drawn = layout.encode_cluster_secret(secrets.token_bytes(KEY_SIZE))
        above = layout.parent(layout.CLUSTER_SECRET)
        # Several may start at once: all read what the first has drawn.
        await session.multis([[Create(above)], [Create(layout.CLUSTER_SECRET, drawn)]])
        node = await session.get(layout.CLUSTER_SECRET)
    key = layout.decode_cluster_secret(node.data) if node is not None else None
    if key is None or len(key) != KEY_SIZE:
        raise UsageError(
            f"the store's {layout.CLUSTER_SECRET} is damaged; "
            "remove that node while all brokers are stopped, and a new secret is drawn"
        )
    return ClusterSecret(key)


async def register(
    session: Session,
    broker: Registration,
    *,
    timestamp_ms: int,
    own_sessions: frozenset[int],
    patience_s: float = 0,
) -> int:
    """Register, and return the broker's epoch. `own_sessions` are those this process had before.

    A process that was killed is registered until the store has missed it for as long as a session
    lives. Whoever starts again before that waits, with this patience; and longer where the node
    names the very address that this broker listens on, for then nobody else can be alive there.
    """
    await _refuse_shared_endpoints(session, broker)
    path = layout.broker_path(broker.id)
    data = layout.encode_broker(broker, timestamp_ms=timestamp_ms)
    for _ in range(_ATTEMPTS):
        created, written = await session.multi(
            [Create(path, ephemeral=True), SetData(path, data, version=0)]
        )
        if created.ok and written.ok:
            assert written.stat is not None, path
            return written.stat.czxid
        if created.outcome is not Outcome.NODE_EXISTS:
            raise StoreUnavailable(f"{path}: {created.outcome}")
        epoch = await _claim(session, broker, own_sessions, patience_s)
        if epoch is not None:
            return epoch
    raise StoreUnavailable(f"{path} could not be registered")


async def rewrite(session: Session, broker: Registration, *, timestamp_ms: int) -> None:
    """Tell everybody of other endpoints; who has to register anew tells them then."""
    path = layout.broker_path(broker.id)
    node = await session.get(path)
    if node is not None and node.stat.ephemeral_owner == session.id:
        data = layout.encode_broker(broker, timestamp_ms=timestamp_ms)
        await session.multi([SetData(path, data, version=node.stat.version)])


async def _claim(
    session: Session, broker: Registration, own: frozenset[int], patience_s: float
) -> int | None:
    """Handles a node that exists already: take it, remove it, see it go, or give up."""
    path = layout.broker_path(broker.id)
    node = await session.get(path)
    if node is None:
        return None
    owner = node.stat.ephemeral_owner
    if owner == session.id:
        # The answer to our own registration was lost.
        return node.stat.czxid
    if owner in own:
        await session.multi([Delete(path, node.stat.version)])
        return None
    if patience_s and _is_at_the_place_of(broker, node):
        patience_s += _MISSED_LATE_S
    try:
        async with asyncio.timeout(patience_s):
            await _until_gone(session, path)
    except TimeoutError:
        raise UsageError(f"broker {broker.id} is already running on this store") from None
    return None


def _is_at_the_place_of(broker: Registration, node: Node) -> bool:
    earlier = layout.decode_broker(broker.id, node.data, node.stat.czxid)
    ours = {(endpoint.host, endpoint.port) for endpoint in broker.endpoints}
    return earlier is not None and any((e.host, e.port) in ours for e in earlier.endpoints)


async def _until_gone(session: Session, path: str) -> None:
    touched = asyncio.Event()
    unwatch = session.watch_node(path, touched.set)
    try:
        while await session.get(path) is not None:
            log.warning("waiting for an earlier registration to end", extra={"path": path})
            await touched.wait()
            touched.clear()
    finally:
        unwatch()


async def _refuse_shared_endpoints(session: Session, broker: Registration) -> None:
    others = await session.children(layout.BROKER_IDS) or ()
    ids = [BrokerId(int(name)) for name in others if int(name) != broker.id]
    nodes = await session.get_many([layout.broker_path(other) for other in ids])
    known = (
        layout.decode_broker(other, node.data, node.stat.czxid)
        for other, node in zip(ids, nodes, strict=True)
        if node is not None
    )
    why = clashing(broker.endpoints, filter(None, known))
    if why is not None:
        raise UsageError(why)
