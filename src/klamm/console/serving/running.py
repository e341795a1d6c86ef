"""Runs the console until it is told to stop."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import uvicorn

from klamm.console.options import Options
from klamm.console.serving.server import build
from klamm.model.errors import UsageError

_BACKLOG: Final = 128
_CONNECTIONS_MAX: Final = 1_000
_FIRST_REQUEST_S: Final = 20.0  # a connection that has asked for nothing by then is closed


def listen(options: Options) -> socket.socket:
    """The socket, bound before anything else is done: a taken port is told at once."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((options.host, options.port))
        made.listen(_BACKLOG)
    except OSError as fault:
        made.close()
        where = f"{options.host}:{options.port}"
        raise UsageError(f"the console cannot listen on {where}: {fault.strerror}") from fault
    return made


async def serve(options: Options, on_ready: Callable[[str], None]) -> None:
    """Serve until a signal comes; says the address when it is ready."""
    listening = listen(options)
    port = listening.getsockname()[1]
    app, _ = build(replace(options, port=port))
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=1,
        # Whoever comes straight to the console could name any address as their own.
        proxy_headers=options.public_url is not None,
        limit_concurrency=_CONNECTIONS_MAX,
        h11_max_incomplete_event_size=32 * 1024,
        ssl_certfile=str(options.tls_cert) if options.tls_cert else None,
        ssl_keyfile=str(options.tls_key) if options.tls_key else None,
    )
    scheme = "https" if options.tls_cert else "http"
    host = f"[{options.host}]" if ":" in options.host else options.host
    with listening:
        await _Server(config, partial(on_ready, f"{scheme}://{host}:{port}/")).serve([listening])


class _Server(uvicorn.Server):
    """Says when it is ready, and lets go of connections that ask for nothing."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._silent: dict[Any, float] = {}

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._close_silent()
        return await super().on_tick(counter)

    def _close_silent(self) -> None:
        """A request whose head comes in drops would keep its connection for ever."""
        now = time.monotonic()
        silent = [c for c in self.server_state.connections if getattr(c, "cycle", True) is None]
        self._silent = {each: self._silent.get(each, now) for each in silent}
        for each, since in self._silent.items():
            if now - since > _FIRST_REQUEST_S:
                each.transport.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()
