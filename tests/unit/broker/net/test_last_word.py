"""A handshake that fails ends with the reason, not with a broken connection."""

from __future__ import annotations

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from klamm.broker.net.last_word import LastWord
from klamm.secured.authority import Authority, Pair

NOW = datetime.now(UTC)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    ("life", "says"), [(timedelta(days=1), ""), (timedelta(days=-1), "certificate expired")]
)
async def test_a_client_hears_why(
    version: ssl.TLSVersion, life: timedelta, says: str, tmp_path: Path
) -> None:
    authority = Authority.make("a test", NOW)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(written(tmp_path, authority.issue("b", NOW, hosts=["localhost"])))
    server.load_verify_locations(cadata=authority.certificate)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cadata=authority.certificate)
    client.load_cert_chain(written(tmp_path, authority.issue("a", NOW, life=life)))
    client.maximum_version = version
    ours, theirs = socket.socketpair()
    heard = asyncio.create_task(asyncio.to_thread(hear, theirs, client))
    loop = asyncio.get_running_loop()
    try:
        transport, _ = await loop.connect_accepted_socket(
            asyncio.Protocol, ours, ssl=LastWord(ours, server).context
        )
        assert not says
        assert "do_handshake" not in vars(transport.get_extra_info("ssl_object"))
        transport.write(b"!")
        transport.close()
    except ssl.SSLError:
        assert says
    told = await heard
    assert (says in told) if says else told == "!"


def hear(sock: socket.socket, context: ssl.SSLContext) -> str:
    sock.settimeout(10)
    try:
        with context.wrap_socket(sock, server_hostname="localhost") as shaken:
            return shaken.recv(1).decode()
    except ssl.SSLError as fault:
        return str(fault)


def written(directory: Path, pair: Pair) -> Path:
    path = directory / "pair.pem"
    path.write_text(pair.both)
    return path
