"""A served store beside a real ZooKeeper: the same requests get the same bytes.

Transactions are renumbered and times left out, for those are each server's own.
"""

from __future__ import annotations

import asyncio
import random
import re
import struct
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from klamm.ensemble import class_path, java_command
from unit.store.serving import raw
from unit.store.serving.process import ServedProcess
from unit.store.serving.raw import Raw, read, set_data, text, versioned
from unit.store.zookeeper_server import ZooKeeperServer, why_not

pytestmark = [
    pytest.mark.zookeeper,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]

CREATE, DELETE, EXISTS, GET, SET, GET_ACL, SET_ACL, LS, SYNC = 1, 2, 3, 4, 5, 6, 7, 8, 9
LS2, CHECK, MULTI, CREATE2, CONTAINER, MULTI_READ = 12, 13, 14, 15, 19, 22
EPHEMERALS, COUNT, ADD_W = 103, 104, 106


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[int, int]]:
    ours, real = ServedProcess(), ZooKeeperServer()
    try:
        real.launch()
        ours.start()
        real.wait()
        yield ours.port, real.port
    finally:
        ours.remove()
        real.remove()


class Script:
    """Requests that come out the same for the same seed."""

    def __init__(self, seed: int, root: str) -> None:
        self._dice = random.Random(seed)
        self._root = root

    def path(self) -> str:
        depth = self._dice.choice((1, 1, 2, 2, 3))
        names = [self._dice.choice("abc") for _ in range(depth)]
        odd = self._dice.choice((*[""] * 30, "/", "//x", "/.", "/\x01", "/\ufffe"))
        root = self._dice.choice(("", "", "", "-a", "-b"))
        return f"{self._root}{root}/{'/'.join(names)}{odd}"

    def operation(self) -> tuple[int, bytes]:
        dice, path = self._dice, self.path()
        version = dice.choice((-1, -1, 0, 1, 2))
        data = dice.choice((None, b"", b"x", b"yy"))
        kind = dice.choice((CREATE, CREATE, CREATE2, DELETE, SET, CHECK, CONTAINER))
        if kind in (CREATE, CREATE2):
            return kind, raw.create(path, data, dice.choice((0, 0, 0, 1, 2, 3)))
        if kind == CONTAINER:
            return kind, raw.create(path, data, 4)
        if kind == SET:
            return kind, set_data(path, data, version)
        return kind, versioned(path, version)

    def request(self) -> tuple[int, bytes]:
        dice, path = self._dice, self.path()
        writes = (CREATE, CREATE, DELETE, SET, MULTI, MULTI, SET_ACL)
        reads = (EXISTS, GET, LS, LS2, GET_ACL, MULTI_READ, COUNT, EPHEMERALS, SYNC, ADD_W)
        kind = dice.choice((*writes, *reads))
        if kind in (CREATE, DELETE, SET):
            while (made := self.operation())[0] == CHECK:  # a lone one is never answered there
                pass
            return made
        if kind == MULTI:
            return kind, raw.multi(*(self.operation() for _ in range(dice.randrange(4))))
        if kind == MULTI_READ:
            return kind, raw.multi(*((dice.choice((GET, LS)), read(self.path())) for _ in "abc"))
        if kind == SET_ACL:
            grants = dice.choice((raw.OPEN_ACL, raw.OPEN_ACL, raw.acl(), raw.acl((31, "x", "y"))))
            return kind, text(path) + grants + struct.pack(">i", dice.choice((-1, 0)))
        if kind == EPHEMERALS:
            return kind, text(self._root)
        if kind == ADD_W:
            # Up to 3.8 a one-shot takes a lasting watch on its path along, which ours does not:
            # so lasting ones are set where no one-shot is.
            return kind, versioned(f"{self._root}-{dice.choice('ab')}", dice.choice((0, 1)))
        if kind in (GET_ACL, COUNT, SYNC):
            return kind, text(path)
        is_apart = path.startswith(f"{self._root}/")
        return kind, read(path, is_apart and dice.random() < 0.5)


class Masked:
    """Replies without what is each server's own: transactions by rank, no times, no sessions."""

    def __init__(self, raw_client: Raw) -> None:
        self._client = raw_client

    async def told(self, op: int, body: bytes) -> tuple[Any, ...]:
        self._client.events.clear()
        got = await self._client.call(op, body)
        return op, got.err, self._body(op, got.body), list(self._client.events)

    def _body(self, op: int, body: bytes) -> Any:
        if op in (MULTI, MULTI_READ) and body:
            return self._parts(body)
        if op in (LS, EPHEMERALS):
            return sorted(_strings(body)[0]) if body else ()
        if op == LS2 and body:
            names, at = _strings(body)
            return sorted(names), self._stat(body[at:])
        if op in (EXISTS, SET, SET_ACL, GET, GET_ACL, CREATE2, CONTAINER) and len(body) >= 68:
            return body[:-68], self._stat(body[-68:])
        return body

    def _parts(self, body: bytes) -> list[Any]:
        at, parts = 0, []
        while True:
            kind, done, err = struct.unpack_from(">i?i", body, at)
            at += 9
            if done:
                return parts
            part: list[Any] = [kind, err]
            if kind == -1:
                at += 4
            if kind in (CREATE, CREATE2, GET):
                (size,) = struct.unpack_from(">i", body, at)
                part.append(body[at + 4 : at + 4 + max(size, 0)] if size >= 0 else None)
                at += 4 + max(size, 0)
            if kind in (CREATE2, SET, GET):
                part.append(self._stat(body[at : at + 68]))
                at += 68
            if kind == LS:
                names, more = _strings(body[at:])
                part.append(sorted(names))
                at += more
            parts.append(part)

    def _stat(self, data: bytes) -> tuple[object, ...]:
        stat = raw.Stat.of(data)
        numbers = (stat.czxid, stat.mzxid, stat.pzxid)
        order = tuple(sorted(set(numbers)).index(number) for number in numbers)
        mine = stat.owner == self._client.hello.session
        counts = (stat.version, stat.cversion, stat.aversion, stat.size, stat.children)
        return (*counts, order, mine, stat.mtime >= stat.ctime)


def _strings(body: bytes) -> tuple[list[bytes], int]:
    (count,) = struct.unpack_from(">i", body)
    at, found = 4, []
    for _ in range(count):
        (size,) = struct.unpack_from(">i", body, at)
        found.append(body[at + 4 : at + 4 + size])
        at += 4 + size
    return found, at


async def _play(port: int, seed: int, root: str) -> list[tuple[Any, ...]]:
    a = await Raw.open(port)
    await a.connect(8_000)
    masked = Masked(a)
    script = Script(seed, root)
    told = [await masked.told(CREATE, raw.create(f"{root}{more}")) for more in ("", "-a", "-b")]
    told += [await masked.told(*script.request()) for _ in range(400)]
    a.drop()
    return told


@pytest.mark.parametrize("seed", range(5))
async def test_the_same_requests_get_the_same_answers(both: tuple[int, int], seed: int) -> None:
    ours, real = [await _play(port, seed, f"/seed{seed}") for port in both]
    for number, (mine, theirs) in enumerate(zip(ours, real, strict=True)):
        assert mine == theirs, f"request {number} of seed {seed}"


COMMANDS = """
create /cli data
create /cli/a 1
create -e /cli/e 2
create -s /cli/s 3
create -c /cli/c
create -t 1000 /cli/t
ls /cli
ls -R /cli
get /cli
get -s /cli/a
set /cli/a new
stat /cli/a
get -w /cli/a
set /cli/a again
addWatch -m PERSISTENT /cli
create /cli/b
removewatches /cli
whoami
addauth digest me:secret
setAcl /cli/b auth::cdrwa
getAcl /cli/b
getEphemerals
getAllChildrenNumber /cli
sync /cli
delete /cli/nothing
deleteall /cli
ls /
config
reconfig -remove 1
version
quit
"""


def _zkcli(port: int) -> list[str]:
    java = java_command()
    main = ["-cp", class_path(), "org.apache.zookeeper.ZooKeeperMain"]
    quiet = ["-Xmx64m", "-XX:TieredStopAtLevel=1"]
    done = subprocess.run(
        [java, *quiet, *main, "-server", f"127.0.0.1:{port}"],
        input=COMMANDS,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return [_without_own(line) for line in done.stdout.splitlines()]


def _without_own(line: str) -> str:
    line = re.sub(r"0x[0-9a-f]+|:\d{4,5}\b", "N", line)
    line = re.sub(r"^([cm]time) = .*", r"\1", line)
    line = re.sub(r"zxid: -?\d+", "zxid", line)
    return re.sub(r"seed\d(-[ab])?, |tests, ", "", line)


async def test_zkcli_says_the_same_of_both(both: tuple[int, int]) -> None:
    ours, real = await asyncio.gather(*(asyncio.to_thread(_zkcli, port) for port in both))
    assert "[a, c, e, s0000000002]" in ours
    assert sorted(ours) == sorted(real)
