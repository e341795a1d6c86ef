"""`klamm store watch`: every change of a store as it happens."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from klamm.cli.options import Output, OutputOption
from klamm.cli.output import print_json, say
from klamm.cli.store.looking import check_path, one_line
from klamm.cli.store.options import (
    DataOption,
    PathArgument,
    SecretsOption,
    SettingOption,
    ZooKeeperOption,
)
from klamm.cli.store.place import NamedStore, Opened, opened
from klamm.model.errors import StoreUnavailable, UsageError

if TYPE_CHECKING:
    from klamm.store.browsing import Browser, Seen
    from klamm.store.zookeeper import ZooKeeperSession

# A file tells nobody of changes: it is looked at so often.
_LOOK_EVERY_S: Final = 0.5


def watch(
    path: PathArgument = "/",
    data: DataOption = None,
    zookeeper: ZooKeeperOption = None,
    setting: SettingOption = None,
    secrets: SecretsOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Print changes from a node down, until Ctrl-C.

    Example: klamm store watch /brokers
    """
    check_path(path)
    watcher = _Watcher(path, secrets=secrets, output=output)
    with suppress(KeyboardInterrupt):
        asyncio.run(watcher.run(NamedStore.of(data, zookeeper, setting)))


class _Watcher:
    """The nodes as they were known, and how what is found differs from them."""

    def __init__(self, root: str, *, secrets: bool, output: Output) -> None:
        self._root = root
        self._secrets = secrets
        self._output = output
        self._known: dict[str, Seen] = {}

    async def run(self, place: NamedStore) -> None:
        async with opened(place) as store:
            if not store.is_running:
                raise UsageError(f"no cluster runs on {store.where}, so nothing will change there")
            if store.lacks:
                say(f"klamm: {store.lacks}", to=sys.stderr)
            if store.session is not None:
                await self._follow_session(store.session)
            else:
                await self._follow_file(store)

    async def _follow_session(self, session: ZooKeeperSession) -> None:
        from klamm.store.port import SessionState

        hints: asyncio.Queue[frozenset[str] | None] = asyncio.Queue()

        def hear(state: SessionState) -> None:
            if state is SessionState.EXPIRED:
                hints.put_nowait(None)

        def hint(paths: Collection[str]) -> None:
            hints.put_nowait(frozenset(paths))

        session.watch_state(hear)
        session.watch_tree(self._root, hint)
        self._known = await self._all(session)
        self._tell_begin()
        while (touched := await hints.get()) is not None:
            if self._root in touched:  # it may be any of them, as after a lost connection
                self._compare(await self._all(session), self._known)
            else:
                found = await session.look(sorted(touched))
                fresh = {seen.path: seen for seen in found if seen is not None}
                self._compare(fresh, touched)
        raise StoreUnavailable("the session with the store has ended")

    async def _follow_file(self, store: Opened) -> None:
        from klamm.store.browsing import TreeBrowser
        from klamm.store.peeking import peek, stamp

        assert store.file is not None, "a store that is not asked has a file"
        self._known = await self._all(store.browser)
        self._tell_begin()
        seen = stamp(store.file)
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            if (now := stamp(store.file)) != seen:
                seen = now
                tree = await asyncio.to_thread(peek, store.file)
                self._compare(await self._all(TreeBrowser(tree)), self._known)

    async def _all(self, browser: Browser) -> dict[str, Seen]:
        from klamm.store.browsing import walk

        return {seen.path: seen async for seen in walk(browser, self._root)}

    def _compare(self, fresh: dict[str, Seen], asked: Iterable[str]) -> None:
        """Tell of what is new, different or gone among the paths that were asked for."""
        for path in sorted({*fresh, *asked}):
            before, now = self._known.get(path), fresh.get(path)
            if now is None:
                if self._known.pop(path, None) is not None:
                    self._tell("deleted", path, None)
                continue
            self._known[path] = now
            if before is None:
                self._tell("created", path, now)
            elif before.facts and now.facts and before.facts.czxid != now.facts.czxid:
                self._tell("deleted", path, None)
                self._tell("created", path, now)
            elif before.facts and now.facts and before.facts.mzxid != now.facts.mzxid:
                self._tell("changed", path, now)

    def _tell_begin(self) -> None:
        count = len(self._known)
        say(f"klamm: watching {count} nodes from {self._root} down", to=sys.stderr)

    def _tell(self, what: str, path: str, seen: Seen | None) -> None:
        from klamm.store.layout.kinds import kind_of, payload

        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        value: Any = None
        version = None
        if seen is not None and seen.facts is not None:
            value, version = payload(path, seen.data, secrets=self._secrets), seen.facts.version
        if self._output is Output.JSON:
            told = {"at": at, "what": what, "path": path, "kind": kind_of(path).title}
            print_json(told | {"version": version, "data": value})
        else:
            shown = "" if version is None else f"  version {version}  {one_line(value)}".rstrip()
            say(f"{at}  {what}  {path}{shown}")
        sys.stdout.flush()
