"""The public keys of a token service (JWKS), fetched and kept fresh.

They are fetched when the broker starts, at intervals, and early when a token names a key that
nobody has. A fetch that fails keeps the keys there are and is tried again; until the first one
succeeds, no token is taken.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from klamm.broker.clock import Clock
from klamm.model.errors import Refused
from klamm.repeats import limited
from klamm.security.listeners.overrides import ListenerSettings
from klamm.security.sasl.key_refresh import EarlyRefresh
from klamm.security.sasl.tokens import KeySet, key_set, unknown_key_id

log = limited(logging.getLogger(__name__))

_SIZE_MAX: Final = 1 << 20
_TIMEOUT_S: Final = 10.0
_NAME: Final = "OAUTHBEARER"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySource:
    """The place of the keys, and how often somebody looks there."""

    url: str
    refresh_s: float
    pause_s: float
    pause_s_max: float
    timeout_s: float = _TIMEOUT_S

    @property
    def is_file(self) -> bool:
        return urllib.parse.urlsplit(self.url).scheme == "file"


def key_source(settings: ListenerSettings) -> KeySource | Refused:
    """Reads where the keys of a listener's tokens come from."""

    def number(name: str, default: int) -> int:
        text = settings.get(name, _NAME) or ""
        return int(text) if text.strip().isdecimal() else default

    url = (settings.get("sasl.oauthbearer.jwks.endpoint.url", _NAME) or "").strip()
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https", "file") or not (parts.netloc or parts.path):
        return Refused(
            "sasl.oauthbearer.jwks.endpoint.url is http(s)://host/path or file:///path, not "
            f"{url!r}"
        )
    return KeySource(
        url=url,
        refresh_s=number("sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000) / 1000,
        pause_s=number("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100) / 1000,
        pause_s_max=number("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10_000) / 1000,
        timeout_s=number("sasl.login.read.timeout.ms", int(_TIMEOUT_S * 1000)) / 1000,
    )


class TokenKeys:
    """The keys of one token service."""

    def __init__(self, source: KeySource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._early = EarlyRefresh()
        self._wanted = asyncio.Event()
        self.keys: KeySet | None = None

    def missed(self, token: str) -> None:
        """A token was refused; perhaps it names a key that is new."""
        if self.keys is None or self._source.is_file:
            return
        key_id = unknown_key_id(self.keys, token)
        if key_id is not None and self._early.wants(key_id, self._clock.now_ms()):
            self._wanted.set()

    async def run(self) -> None:
        """Fetch the keys, now and whenever it is time."""
        while True:
            self._wanted.clear()
            await self._fetch_until_there()
            try:
                async with asyncio.timeout(self._source.refresh_s):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def first(self) -> None:
        """Fetch the keys once, before the first login; it may fail."""
        await self._fetch()

    async def _fetch_until_there(self) -> None:
        pause_s = self._source.pause_s
        while not await self._fetch():
            await asyncio.sleep(pause_s)
            pause_s = min(max(2 * pause_s, 0.01), self._source.pause_s_max)

    async def _fetch(self) -> bool:
        try:
            text = await asyncio.to_thread(_read, self._source)
        except (OSError, ValueError, http.client.HTTPException) as fault:
            told: KeySet | Refused = Refused(str(getattr(fault, "reason", "")) or str(fault))
        else:
            told = key_set(text)
        if isinstance(told, Refused):
            log.warning(
                "the keys of a token service cannot be had",
                extra={"url": self._source.url, "why": told.why},
            )
            return False
        self.keys = told
        return True


class _Redirected(urllib.request.HTTPRedirectHandler):
    """Follows a redirection, but not from https to where keys could be swapped on their way."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, hdrs: Any, new: str) -> Any:
        told = urllib.parse.urlsplit(new).scheme
        if told not in ("https", urllib.parse.urlsplit(req.full_url).scheme):
            raise OSError(f"it sends on to {told}, and https was asked for")
        return super().redirect_request(req, fp, code, msg, hdrs, new)


def _read(source: KeySource) -> str:
    parts = urllib.parse.urlsplit(source.url)
    if source.is_file:
        with Path(urllib.parse.unquote(parts.path)).open("rb") as file:
            data = file.read(_SIZE_MAX + 1)
    else:
        opener = urllib.request.build_opener(_Redirected)
        with opener.open(source.url, timeout=source.timeout_s) as answer:
            data = _received(answer, time.monotonic() + source.timeout_s)
    if len(data) > _SIZE_MAX:
        raise ValueError(f"it has more than {_SIZE_MAX} bytes")
    return bytes(data).decode()


def _received(answer: Any, until: float) -> bytes:
    """Reads an answer; each piece in time is not enough, where there are very many."""
    found = bytearray()
    while piece := answer.read1(_SIZE_MAX + 1 - len(found)):
        found += piece
        if len(found) > _SIZE_MAX:
            break
        if time.monotonic() > until:
            raise TimeoutError("it answers too slowly")
    return bytes(found)
