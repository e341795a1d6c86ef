"""What tests of the wire share: operations by name, and connections to a served store."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from unit.store.serving.raw import Raw, client, text
from unit.store.serving.served import served

CREATE, DELETE, EXISTS, GET, SET, GET_ACL, SET_ACL, LS, SYNC = 1, 2, 3, 4, 5, 6, 7, 8, 9
PING, LS2, CHECK, MULTI, CREATE2, RECONFIG, CHECK_W, REMOVE_W = 11, 12, 13, 14, 15, 16, 17, 18
CONTAINER, TTL, MULTI_READ, AUTH, SET_W, SASL = 19, 21, 22, 100, 101, 102
EPHEMERALS, COUNT = 103, 104
SET_W2, ADD_W, WHO, CLOSE = 105, 106, 107, -11


@asynccontextmanager
async def one(**door: object) -> AsyncIterator[tuple[Raw, int]]:
    async with served(**door) as (_, server), client(server.port) as a:  # type: ignore[arg-type]
        yield a, server.port


@asynccontextmanager
async def two(**door: object) -> AsyncIterator[tuple[Raw, Raw]]:
    async with one(**door) as (a, port), client(port) as b:
        yield a, b


def digest(user_password: str) -> str:
    hashed = base64.b64encode(hashlib.sha1(user_password.encode()).digest()).decode()
    return f"{user_password.partition(':')[0]}:{hashed}"


def auth(scheme: str, data: str) -> bytes:
    return struct.pack(">i", 0) + text(scheme) + text(data)
