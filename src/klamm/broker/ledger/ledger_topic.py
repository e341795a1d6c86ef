"""The ledger as a topic, `__klamm_ledger`, which every client can read.

A transition is durable once it is in the file of the controller that decided it (`ledger`). From
there each broker brings its own lines to the topic, in order and in the background, so a controller
never waits for a topic that it may itself have to bring online. What cannot be brought now stays in
the file and is brought later, also after a restart, and also after somebody deleted the topic: a
topic with another id gets everything from the beginning.

The key of a record is the thing that moved, so compaction leaves the last state of each thing; what
ceased to be gets a tombstone and is forgotten. The value is the line itself, the timestamp that of
the decision. Readers go by (controller epoch, sequence), for two brokers bring their lines
independently of each other.

No line comes twice: a cursor beside the files says what was brought and where the topic ended then.
After a restart or a lost answer the topic is read from there on before anything is sent. What a
leader had taken but not yet replicated is not seen by that, and may come twice; readers drop
duplicates by (controller epoch, sequence).

Nothing here feeds on itself: what happens to this topic wakes nobody, and travels with the next
line that is about something else. The topic is made for the first line about a topic of somebody.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from klamm.broker.ledger.ledger import Ledger, LedgerLine, LinePlace
from klamm.broker.metadata_cache import MetadataCache
from klamm.broker.net.peers import Peers
from klamm.client.aio.admin import Admin
from klamm.client.aio.cluster import Client
from klamm.client.aio.consumer import Consumer
from klamm.client.errors import code_of
from klamm.controller.states import TopicState
from klamm.controller.states.tables import MACHINES
from klamm.log.disk.files import replace_unsynced
from klamm.model.brokers import Endpoint
from klamm.model.errors import ErrorCode, KlammError, RequestRefused
from klamm.model.names import INTERNAL_WRITER, KLAMM_LEDGER, BrokerId, TopicPartition, id_text
from klamm.model.offsets import LATEST
from klamm.model.settings import BrokerSettings
from klamm.protocol import produce
from klamm.protocol.apis import ApiKey
from klamm.protocol.batch import Codec, Record, encode_batch

log = logging.getLogger(__name__)

T = TypeVar("T")
CURSOR: Final = "ledger-forwarded.json"
PARTITION: Final = TopicPartition(KLAMM_LEDGER, 0)
# A batch's worth: compressed it is a tenth, far below what any topic takes.
_CHUNK_BYTES: Final = 512 * 1024
_PATIENCE_MS: Final = 10_000
_GATHER_S: Final = 0.2
# A broker that is elected for the first time has to read all of the topic before it may add to it:
# not while it takes over.
_CALM_S: Final = 5.0
_PAUSE_S: Final = 0.5
_PAUSE_S_MAX: Final = 30.0
_BEGINNING: Final = LinePlace()


class _Host(Protocol):
    """The services this needs of its broker."""

    @property
    def id(self) -> BrokerId: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def peers(self) -> Peers: ...

    @property
    def endpoint(self) -> Endpoint: ...

    async def in_worker(self, work: Callable[[], T]) -> T: ...


@dataclass(frozen=True, slots=True)
class Cursor:
    """Up to where lines were brought, and where the topic ended then."""

    place: LinePlace = _BEGINNING
    topic_id: str = ""
    offset: int = 0


class LedgerTopic:
    """Brings one broker's lines to the topic."""

    def __init__(
        self,
        host: _Host,
        ledger: Ledger,
        directory: Path,
        create: Callable[[str], Awaitable[str | None]],
        *,
        newest_epoch: Callable[[], int],
    ) -> None:
        self._host = host
        self._ledger = ledger
        self._path = directory / CURSOR
        self._create = create
        self._newest_epoch = newest_epoch  # the highest of a controller that has ordered anything
        self._news = asyncio.Event()
        self._cursor: Cursor | None = None  # not yet read
        self._seen_id: str | None = None
        self._is_sure = False  # whether the topic holds just what the cursor says
        self._there: set[tuple[int, int]] = set()  # lines behind the cursor that it holds already
        ledger.on_news = self._news.set

    def wake(self) -> None:
        """Look again, for example because the settings changed."""
        self._news.set()

    def metadata_changed(self) -> None:
        """The topic may be another one now."""
        if self._topic_id not in (None, self._seen_id):
            self._seen_id = self._topic_id
            self.wake()

    @property
    def _has_to_read_all(self) -> bool:
        is_there = KLAMM_LEDGER in self._host.metadata.snapshot.topics
        has_brought = self._cursor is not None and self._cursor.offset > 0
        return is_there and not self._is_sure and not has_brought

    @property
    def _topic_id(self) -> str | None:
        known = self._host.metadata.snapshot.topic_ids.get(KLAMM_LEDGER)
        return None if known is None else id_text(known)

    async def run(self) -> None:
        """Bring lines as they are written, until cancelled."""
        pause_s = _PAUSE_S
        self._news.set()
        await self._host.metadata.wait_for(lambda snapshot: self._host.id in snapshot.brokers)
        while True:
            await self._news.wait()
            if not self._host.settings.bool("klamm.ledger.topic.enable"):
                self._news.clear()
                continue
            # Decisions come in bursts: all of one share the way.
            if self._cursor is None:
                self._cursor = await self._host.in_worker(lambda: _load(self._path))
            await asyncio.sleep(_CALM_S if self._has_to_read_all else _GATHER_S)
            self._news.clear()
            try:
                await self._bring()
                pause_s = _PAUSE_S
            except (KlammError, OSError, TimeoutError) as fault:
                self._is_sure = False
                log.info("the ledger's topic does not take lines now", extra={"why": str(fault)})
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)
                self._news.set()

    def waiting(self) -> Iterator[dict[str, Any]]:
        """The entries that are not in the topic yet, as far as this broker knows; blocks."""
        cursor = self._cursor or _load(self._path)
        if self._topic_id != cursor.topic_id:
            cursor = Cursor()
        lines, place = self._ledger.read_from(cursor.place, _CHUNK_BYTES)
        while lines:
            yield from (line.entry for line in lines)
            lines, place = self._ledger.read_from(place, _CHUNK_BYTES)

    async def _bring(self) -> None:
        assert self._cursor is not None, "the cursor was read"
        if self._topic_id not in (None, self._cursor.topic_id):
            self._begin_anew(self._topic_id or "")
        lines, place = await self._next(self._cursor)
        if not lines or not await self._is_there(lines):
            return
        here = self._host.endpoint
        async with Client(
            [(here.host, here.port)],
            client_id=INTERNAL_WRITER,
            security=self._host.peers.security_of(here.listener),
            introduce=self._host.peers.introduce_at,
        ) as client:
            before = self._cursor
            await self._find_out(client)
            if self._cursor is not before:
                lines, place = await self._next(self._cursor)
            while lines:
                await self._send(client, lines, place)
                lines, place = await self._next(self._cursor)
            self._there.clear()

    def _begin_anew(self, topic_id: str) -> None:
        self._cursor = Cursor(topic_id=topic_id)
        self._is_sure = False

    async def _next(self, cursor: Cursor) -> tuple[list[LedgerLine], LinePlace]:
        read = self._ledger.read_from
        return await self._host.in_worker(lambda: read(cursor.place, _CHUNK_BYTES))

    async def _is_there(self, lines: Sequence[LedgerLine]) -> bool:
        """Whether the topic can be written to; it is made when there is something to tell."""
        metadata = self._host.metadata
        if KLAMM_LEDGER not in metadata.snapshot.topics:
            if all(line.topic in ("", KLAMM_LEDGER) for line in lines):
                return False
            why = await self._create(KLAMM_LEDGER)
            if why is not None:
                raise KlammError(why)
        await metadata.wait_for(lambda s: s.is_led(KLAMM_LEDGER, 1), _PATIENCE_MS)
        return True

    async def _find_out(self, client: Client) -> None:
        """Correct the cursor by what the topic really is and holds."""
        assert self._cursor is not None, "the cursor was read"
        picture = await client.refresh([KLAMM_LEDGER])
        topic_id = id_text(picture.topics[KLAMM_LEDGER].topic_id)
        if topic_id != self._cursor.topic_id:
            self._begin_anew(topic_id)
        if self._is_sure:
            return
        (answer,) = (await Admin(client).list_offsets({PARTITION: LATEST})).values()
        if answer.error_code:
            raise RequestRefused(code_of(answer.error_code), f"{PARTITION} cannot be looked at")
        self._there.clear()
        own = re.compile(rb'"controller_id": ?%d,' % self._host.id)
        async with Consumer(client, {PARTITION: self._cursor.offset}) as consumer:
            while (position := consumer.positions[PARTITION]) < answer.offset:
                records = await consumer.poll(timeout_s=_PATIENCE_MS / 1000)
                if consumer.positions[PARTITION] == position:
                    raise TimeoutError(f"{PARTITION} cannot be read at {position}")
                for record in records:
                    if record.value is None or own.search(record.value) is None:
                        continue  # quicker than to read what others have written
                    entry = json.loads(record.value)
                    if entry.get("controller_id") == self._host.id:
                        self._there.add((entry["controller_epoch"], entry["sequence"]))
        self._is_sure = True

    async def _send(self, client: Client, lines: Sequence[LedgerLine], place: LinePlace) -> None:
        assert self._cursor is not None, "the cursor was read"
        newest = self._newest_epoch()
        records = list(
            _records([x for x in lines if (x.epoch, x.sequence) not in self._there], newest)
        )
        offset = self._cursor.offset
        if records:
            encode = encode_batch
            batch = await self._host.in_worker(lambda: encode(records, codec=Codec.LZ4))
            offset = await _append(client, batch) + len(records)
        cursor = replace(self._cursor, place=place, offset=offset)
        await self._host.in_worker(lambda: _save(self._path, cursor))
        self._cursor = cursor


async def _append(client: Client, batch: bytes) -> int:
    """Append once; whether to try again is decided after a look at what is there."""
    await client.refresh([KLAMM_LEDGER])
    leader = client.picture.leader(PARTITION)
    if leader is None:
        raise RequestRefused(ErrorCode.LEADER_NOT_AVAILABLE, f"{PARTITION} has no leader")
    connection = await client.to_node(leader.leader_id, client.deadline())
    records = produce.PartitionRecords(PARTITION.partition, memoryview(batch))
    request = produce.ProduceRequest(
        None, -1, _PATIENCE_MS, [produce.TopicRecords(KLAMM_LEDGER, [records])]
    )
    response = await connection.produce(connection.version_of(ApiKey.PRODUCE), request)
    assert response is not None, "acks=all is answered"
    result = response.topics[0].partitions[0]
    if result.error_code:
        code = code_of(result.error_code)
        raise RequestRefused(code, result.error_message or code.name)
    return result.base_offset


def _records(lines: Iterable[LedgerLine], newest: int) -> Iterator[Record]:
    """Lines as records; those of an earlier controller must not take the place of newer ones."""
    offset = 0
    for line in lines:
        is_late = line.epoch < newest
        key = f"{line.epoch} {line.subject}" if is_late else line.subject
        yield Record(offset, line.time_ms, key.encode(), line.text)
        offset += 1
        if line.after in _ENDS and not is_late:
            for gone in _ended(line.subject, line.after):
                yield Record(offset, line.time_ms, gone.encode(), None)
                offset += 1


_ENDS: Final = frozenset(str(machine.never) for machine in MACHINES)


def _ended(subject: str, after: str) -> tuple[str, ...]:
    """The keys of what it was the last of."""
    is_topic = subject.startswith("topic ")
    if is_topic != (after == TopicState.ABSENT):
        return ()
    if is_topic or " on broker " in subject:
        return (subject,)
    return subject, f"{subject} ISR", f"{subject} replicas"


def _load(path: Path) -> Cursor:
    """The saved cursor; if it cannot be read, the topic itself tells what it holds."""
    try:
        saved = json.loads(path.read_bytes())
        place = LinePlace(int(saved["file"]), int(saved["position"]))
        return Cursor(place, str(saved["topic_id"]), int(saved["offset"]))
    except (OSError, ValueError, KeyError, TypeError):
        return Cursor()


def _save(path: Path, cursor: Cursor) -> None:
    saved = {
        "file": cursor.place.file,
        "position": cursor.place.position,
        "topic_id": cursor.topic_id,
        "offset": cursor.offset,
    }
    replace_unsynced(str(path), json.dumps(saved).encode())
