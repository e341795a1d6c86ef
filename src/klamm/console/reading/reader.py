"""The reader: asks the cluster for all viewers together, and keeps the picture.

A klamm pushes: one question for news is always under way, and is answered when the controller has
decided something. Everything else is asked now and then, at a pace that `governor` allows; where
nobody has looked for a minute only the news is followed. Any other Kafka is asked for its metadata.

Each source fails alone. What it told last stays, with its age.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any, Final

from klamm.client.aio.admin import Admin
from klamm.client.aio.cluster import Client
from klamm.client.errors import VersionMismatch
from klamm.client.settings import ClientSettings
from klamm.console.processes import Processes
from klamm.console.reading import asking, governor, progress
from klamm.console.reading.folding import Judge, place_text
from klamm.console.reading.picture import Picture, Source, Topic
from klamm.model.errors import ErrorCode, KlammError
from klamm.protocol.private import PrivateKey

log = logging.getLogger(__name__)

CLIENT_ID: Final = "klamm-console"
_TIMEOUT_S: Final = 5.0
_NEWS_MS: Final = 3_000
_RETRY_S: Final = 0.5
_REST_AFTER_S: Final = 60.0
_SOON_S: Final = 0.2  # between two looks that news ask for
_REMEMBERED: Final = 1_000  # lines from before
_QUIET_S: Final = 10.0  # between two looks where there is no news
_MOVING_S: Final = 5.0  # between two looks at the logs while replicas move


class Reader:
    """Keeps one picture of one cluster; `run` ends only when it is cancelled."""

    def __init__(
        self,
        servers: str,
        settings: ClientSettings | None,
        processes: Processes | None = None,
    ) -> None:
        self.picture = Picture()
        self._processes = processes
        self._client = _client(servers, settings, _TIMEOUT_S)
        self._tail = _client(servers, settings, _NEWS_MS / 1000 + 2.0)
        self.admin = Admin(self._client)
        self._judge: Judge | None = None
        self._listeners: list[Callable[[], None]] = []
        self._stir = asyncio.Event()  # news: look at status and waits soon
        self._hurry = asyncio.Event()  # look now, whatever the pace
        self._hurries: list[asyncio.Event] = []  # the same for each other source
        self._seen = asyncio.Event()  # somebody looks
        self._operated = asyncio.Event()
        self._hurries.append(self._operated)
        self._seen_at = time.monotonic()
        self._offsets_at = 0.0
        self._meanwhile: deque[dict[str, Any]] = deque(maxlen=_REMEMBERED)  # during a look

    def on_change(self, call: Callable[[], None]) -> None:
        """Has this called whenever the picture changed."""
        self._listeners.append(call)

    def touch(self) -> None:
        """Something that pages show has changed beside the cluster."""
        self._changed()

    def look(self) -> None:
        """Somebody looks: what rested is asked again."""
        self._seen_at = time.monotonic()
        self._seen.set()

    def hurry(self) -> None:
        """Somebody has just changed something and wants to see what came of it."""
        for event in (self._hurry, self._stir, *self._hurries):
            event.set()

    async def run(self) -> None:
        """Ask until cancelled."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._client.close)
            stack.push_async_callback(self._tail.close)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._follow(), name="console-news")
                tasks.create_task(self._often(), name="console-status")
                if self._processes is not None:
                    tasks.create_task(self._operate(self._processes), name="console-processes")
                for name, every_s, ask in (
                    ("offsets", 5.0, self._ask_offsets),
                    ("groups", 5.0, self._ask_groups),
                    ("log dirs", 15.0, self._ask_log_dirs),
                ):
                    tasks.create_task(self._again(name, every_s, ask), name=f"console-{name}")

    async def _operate(self, processes: Processes) -> None:
        """The processes on this machine: a small question over a socket, no broker's time."""
        while True:
            try:
                found = dict(await processes.states())
            except (KlammError, OSError):
                found = {}
            if found != self.picture.processes:
                self.picture.processes = found
                self._changed()
            await _within(self._operated, 2.0 if self._is_watched else _REST_AFTER_S)
            self._operated.clear()

    # News

    async def _follow(self) -> None:
        """The states of everything, and then each decision as it is made."""
        source = self._source("states")
        hurry = asyncio.Event()
        self._hurries.append(hurry)
        while True:
            began = time.monotonic()
            try:
                await self._ask_states()
                self._told(source, time.monotonic() - began)
                while self.picture.is_klamm:
                    await self._ask_news(source)
                # A Kafka that tells no news is asked for all, with the share of the status too,
                # which it does not have.
                governor.measured(self._source("status"), time.monotonic() - began, began)
                await _within(hurry, governor.pause_s(self._source("status"), 2.0))
                hurry.clear()
            except Exception as fault:  # noqa: BLE001 - whatever a cluster says, the others go on
                self._failed(source, fault)
                await asyncio.sleep(_RETRY_S)

    async def _ask_states(self) -> None:
        picture = self.picture
        try:
            topics, place, machines = await asking.states(self.admin)
        except VersionMismatch:
            await self._ask_metadata()
            return
        picture.is_klamm = True
        picture.topics, picture.place, picture.machines = topics, place, machines
        if self._judge is None:
            self._judge = Judge(machines)
            await self._remember()
        picture.cluster_id = self._client.picture.cluster_id
        self._stir.set()
        self._changed()

    async def _remember(self) -> None:
        """The last lines from before the console began to look: asked for once."""
        lines, _ = await asking.story(self.admin, None, _REMEMBERED)
        for line in lines:
            if (line["controller_epoch"], line["sequence"]) <= (self.picture.place or (0, 0)):
                self._take(line)

    async def _ask_metadata(self) -> None:
        """All that a foreign Kafka shows; what changed is kept as seen from outside."""
        picture = self.picture
        seen = await self._client.refresh(None)
        topics = {
            name: asking.derived_topic(told, seen.nodes)
            for name, told in sorted(seen.topics.items())
            if told.error_code in (0, ErrorCode.LEADER_NOT_AVAILABLE)
        }
        picture.is_klamm, picture.cluster_id = False, seen.cluster_id
        if topics != picture.topics or not picture.status:
            _note_seen(picture, topics)
        picture.topics = topics
        picture.status = asking.derived_status(seen.controller_id, seen.nodes, topics.values())
        picture.waits = asking.derived_waits(topics.values(), picture.live)
        self._changed()

    async def _ask_news(self, source: Source) -> None:
        body = {"place": self.picture.place, "wait_ms": _NEWS_MS}
        answer = await Admin(self._tail).ask_controller(PrivateKey.STATES, body)
        source.at_ms, source.error = _now_ms(), None
        if answer["gap"]:
            await self._ask_states()
            return
        picture = self.picture
        picture.place = (answer["place"][0], answer["place"][1])
        if not answer["lines"]:
            return
        for told in answer["topics"]:
            picture.topics[told["name"]] = asking.topic_of(told)
        for name in answer["gone"]:
            picture.topics.pop(name, None)
        if answer["gone"]:
            picture.waits = [w for w in picture.waits if w["topic"] not in answer["gone"]]
        picture.waits = asking.still_waiting(picture.waits, picture.topics)
        for line in answer["lines"]:
            self._take(line)
        self._stir.set()
        self._changed()

    def _take(self, line: dict[str, Any]) -> None:
        assert self._judge is not None, "the tables came with the states"
        line["id"] = place_text(line)
        line["illegal"] = self._judge.fault(line)
        self.picture.lines.append(line)
        self._meanwhile.append(line)
        self._note_broker(line)
        if line["illegal"]:
            log.warning("an illegal move", extra={"line": line["id"], "why": line["illegal"]})
            self.picture.illegal.append(line)

    def _note_broker(self, line: dict[str, Any]) -> None:
        """A broker that came or went is seen at once, and not with the next look."""
        word = {"gone": "down", "live": "up", "shutting down": "shutting down"}.get(line["after"])
        kind, _, id = line["subject"].partition(" ")
        if kind == "broker" and word is not None:
            for broker in self.picture.brokers:
                if str(broker["id"]) == id:
                    broker["presence"] = word
                    broker["since_ms"] = None if word == "up" else line["time_ms"]

    # What is asked now and then

    async def _often(self) -> None:
        """Status and waits: soon after news, else now and then."""
        source = self._source("status")
        while True:
            began = time.monotonic()
            try:
                if self.picture.is_klamm:
                    await self._ask_status()
                    self._told(source, time.monotonic() - began)
            except Exception as fault:  # noqa: BLE001 - whatever a cluster says, the others go on
                self._failed(source, fault)
            await _within(self._hurry, governor.pause_s(source, _SOON_S))
            self._hurry.clear()
            await _within(self._stir, _QUIET_S if self._is_watched else _REST_AFTER_S)

    async def _ask_status(self) -> None:
        self._stir.clear()
        self._meanwhile.clear()
        found = await asking.status(self.admin)
        waits = await asking.explanations(self.admin)
        if (found, waits) != (self.picture.status, self.picture.waits):
            self.picture.status, self.picture.waits = found, waits
            # The answer may be from before what the news have told since.
            for line in self._meanwhile:
                self._note_broker(line)
            self._changed()

    async def _again(
        self, name: str, every_s: float, ask: Callable[[], Awaitable[str | None]]
    ) -> None:
        source = self._source(name)
        hurry = asyncio.Event()
        self._hurries.append(hurry)
        while True:
            if not self._is_watched:
                self._seen.clear()
                await self._seen.wait()
            began = time.monotonic()
            try:
                if self.picture.is_klamm is not None:
                    fault = await ask()
                    self._told(source, time.monotonic() - began)
                    source.error = fault
                    self._changed()
            except Exception as error:  # noqa: BLE001 - whatever a cluster says, the others go on
                self._failed(source, error)
            is_first = self.picture.is_klamm is None
            wanted_s = _MOVING_S if name == "log dirs" and self._is_moving else every_s
            await _within(hurry, _RETRY_S if is_first else governor.pause_s(source, wanted_s))
            hurry.clear()

    async def _ask_offsets(self) -> None:
        now = time.monotonic()
        passed_s = now - self._offsets_at if self._offsets_at else 0.0
        topics = list(self.picture.topics.values())
        found = await asking.offsets(self.admin, topics, self.picture.offsets, passed_s)
        self.picture.offsets |= found
        there = self.picture.topics
        self.picture.offsets = {
            key: value for key, value in self.picture.offsets.items() if key[0] in there
        }
        self._offsets_at = now

    async def _ask_groups(self) -> None:
        self.picture.groups = await asking.groups(self.admin, self.picture.offsets)

    async def _ask_log_dirs(self) -> str | None:
        live = sorted(self.picture.live)
        (sizes, dirs), faults = await asking.log_dirs(self.admin, live)
        kept = {key: size for key, size in self.picture.sizes.items() if key[2] not in dirs}
        self.picture.sizes = {k: s for k, s in kept.items() if k[0] in self.picture.topics} | sizes
        self.picture.dirs |= dirs
        moves = self.picture.status.get("moves", {}).get("items", [])
        known = self.picture.copied
        self.picture.copied = progress.followed(known, moves, self.picture.sizes, _now_ms())
        try:
            self.picture.limits = await asking.limits(self.admin, live)
        except (KlammError, OSError) as fault:
            faults.append(f"limits: {fault}")
        return "; ".join(faults) or None

    # Book-keeping

    @property
    def _is_watched(self) -> bool:
        return time.monotonic() - self._seen_at < _REST_AFTER_S

    @property
    def _is_moving(self) -> bool:
        return bool(self.picture.status.get("moves", {}).get("items"))

    def _source(self, name: str) -> Source:
        return self.picture.sources.setdefault(name, Source(name))

    def _told(self, source: Source, took_s: float) -> None:
        governor.measured(source, took_s, time.monotonic())
        source.at_ms = _now_ms()
        if source.error is not None:
            source.error = None
            self._changed()

    def _failed(self, source: Source, fault: Exception) -> None:
        told = str(fault) or type(fault).__name__
        if source.error is None:
            is_ours = not isinstance(fault, KlammError | OSError)
            log.log(
                logging.ERROR if is_ours else logging.INFO,
                "a source does not answer",
                exc_info=fault if is_ours else None,
                extra={"source": source.name, "why": told},
            )
        if source.error != told:
            source.error = told
            self._changed()

    def _changed(self) -> None:
        self.picture.touch()
        for call in self._listeners:
            call()


async def _within(event: asyncio.Event, timeout_s: float) -> None:
    """Until an event, but not for longer than this."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass


def _client(servers: str, settings: ClientSettings | None, timeout_s: float) -> Client:
    if settings is None:
        return Client(servers, client_id=CLIENT_ID, timeout_s=timeout_s)
    return Client(
        servers,
        client_id=CLIENT_ID,
        timeout_s=min(settings.timeout_s, timeout_s),
        request_timeout_s=settings.request_timeout_s,
        security=settings.security,
    )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _note_seen(picture: Picture, after: dict[str, Topic]) -> None:
    """Differences of two looks, as lines that say from where they were seen."""
    if not picture.status:
        return
    now_ms = _now_ms()
    gone = sorted(picture.topics.keys() - after.keys())
    found = [(name, f"topic {name}", "created", "absent") for name in gone]
    for name, topic in after.items():
        known = picture.topics.get(name)
        if known is None:
            found.append((name, f"topic {name}", "absent", "created"))
            continue
        for old, new in zip(known.partitions, topic.partitions, strict=False):
            where = f"{name}-{new.index}"
            if old.state != new.state:
                found.append((name, where, old.state, new.state))
            if old.isr != new.isr:
                found.append((name, f"{where} ISR", _listed(old.isr), _listed(new.isr)))
            for broker, before, now in zip(
                new.replicas, old.replica_states, new.replica_states, strict=False
            ):
                if before != now:
                    found.append((name, f"{where} on broker {broker}", before, now))
    for topic_name, subject, before, now in found:
        number = (int(picture.lines[-1]["sequence"]) if picture.lines else 0) + 1
        picture.lines.append(
            {
                "id": f"0.{number}",
                "controller_epoch": 0,
                "sequence": number,
                "time_ms": now_ms,
                "cause": "seen from outside",
                "topic": topic_name,
                "subject": subject,
                "before": before,
                "after": now,
                "why": "",
                "illegal": None,
            }
        )


def _listed(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
