"""From a frame to the handler of its API, and from what that returns to a reply.

A frame whose API or version nobody serves, or whose bytes are not that API's, closes the
connection: the client would not understand any answer. One API is different: a client that asks
ApiVersions in a version from the future is told, in the oldest version, which ones there are.

A large request is read, worked on and answered in slices that let others in (`turns`), and only so
much of all large ones at a time.

An exception in a handler is our fault and not a reason to leave the client in the dark: it is
answered with UNKNOWN_SERVER_ERROR wherever the API's response has a place for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import fields
from typing import Any, Protocol

from klamm.broker import api as registry
from klamm.broker.net.context import RequestContext
from klamm.broker.net.peer import Answer, Peer
from klamm.broker.net.promises import Promise, Receipt
from klamm.broker.net.proof import REQUEST_SIZE_MAX
from klamm.broker.net.replies import Reply
from klamm.broker.net.stopwatch import Stopwatch, Timed
from klamm.broker.net.turns import LARGE, finished, place_for
from klamm.broker.parts import Parts
from klamm.broker.quotas.charging import charge_time
from klamm.broker.quotas.quotas import EXEMPT
from klamm.model.errors import ErrorCode, ProtocolError, RequestRefused, StoreUnavailable
from klamm.protocol import codec, private
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.bounds import WAITS
from klamm.protocol.frames import (
    RequestHeader,
    encode_response_frame,
    is_private,
    is_served,
    parse_request_header,
)
from klamm.protocol.messages import api_versions
from klamm.protocol.private import PrivateKey
from klamm.repeats import limited
from klamm.security.authorization.apis import APIS as NEEDS

log = limited(logging.getLogger(__name__))

_NO_STORE = "the broker cannot reach the store of the cluster at the moment: try again"


class Shortcut(Protocol):
    """Somebody who answers requests directly that come again and again (`Peer.memory`)."""

    @property
    def api_key(self) -> int: ...

    def answer(self, peer: Peer, request: Any) -> bytes | Reply | Receipt | None:
        """The answer to one that was recognised; None where its handler has to look at it."""
        ...

    def learn(self, peer: Peer, frame: memoryview, header: RequestHeader) -> None:
        """Have the peer's memory keep what helps to recognise such a request, if anything."""
        ...


class Router:
    """Routes the requests of one broker."""

    def __init__(self, parts: Parts, shortcut: Shortcut) -> None:
        self._parts = parts
        self._shortcut = shortcut

    def route(self, peer: Peer, frame: memoryview) -> Answer:
        parts = self._parts
        known = peer.memory.recognise(frame)
        if known is not None and not parts.quotas.is_timing:
            answer = self._answer_known(peer, known, frame)
            if answer is not None:
                return answer
        header = parse_request_header(frame)
        if known is None:
            self._shortcut.learn(peer, frame, header)
        context = RequestContext(header, peer)
        if parts.metrics.is_timing or parts.quotas.is_timing:
            return self._route_timed(context, frame)
        return self._route(context, frame)

    def _answer_known(
        self, peer: Peer, request: Any, frame: memoryview
    ) -> bytes | Reply | Receipt | None:
        """The answer that is given directly to a request that came before."""
        watch = Stopwatch() if self._parts.metrics.is_timing else None
        try:
            answer = self._shortcut.answer(peer, request)
        except Exception as fault:
            raise _failed_to_serve(parse_request_header(frame), fault) from fault
        if watch is not None and answer is not None:
            self._count_known(answer, watch)
        return answer

    def _count_known(self, answer: bytes | Reply | Receipt, watch: Stopwatch) -> None:
        watch.stop()
        key, metrics = self._shortcut.api_key, self._parts.metrics

        def served() -> None:
            metrics.served(key, watch.total_s, watch.busy_s)

        if isinstance(answer, Receipt):
            answer.when_over(served)
        else:
            served()

    def _route_timed(self, context: RequestContext, frame: memoryview) -> Answer:
        watch = context.stopwatch = Stopwatch()
        answer = self._route(context, frame)
        watch.stop()
        if isinstance(answer, Reply):
            self._served(context)
            return answer
        if isinstance(answer, Promise):
            answer.when_over(lambda: self._served(context))
            return answer
        if isinstance(answer, Coroutine):
            answer = asyncio.ensure_future(Timed(answer, watch))
        assert isinstance(answer, asyncio.Future), answer
        answer.add_done_callback(lambda _: self._served(context))
        return answer

    def _served(self, context: RequestContext) -> None:
        watch = context.stopwatch
        assert watch is not None, context.header
        if self._parts.metrics.is_timing:
            self._parts.metrics.served(context.header.api_key, watch.total_s, watch.busy_s)

    def _route(self, context: RequestContext, frame: memoryview) -> Answer:
        header = context.header
        key, version, _, _, body_offset = header
        handler = registry.handler(key)
        if handler is None:
            raise ProtocolError(f"nobody serves api {key}")
        body = frame[body_offset:]
        if not is_served(key, version):
            return _unsupported(header)
        if handler.brokers_only and not self._is_broker(context):
            return _refuse_stranger(handler, context, body)
        if handler.serve is not None:
            try:
                return handler.serve(self._parts, context, body)
            except ProtocolError:
                raise
            except Exception as fault:
                raise _failed_to_serve(header, fault) from fault
        if is_private(key):
            if key == PrivateKey.PROVE and len(body) > REQUEST_SIZE_MAX:
                raise ProtocolError(f"nobody proves anything in {len(body)} bytes")
            return self._answer_private(handler, context, body)
        return self._answer(handler, context, body)

    def _is_broker(self, context: RequestContext) -> bool:
        """Whether somebody may ask what is for brokers only: by a proof, or by the lists."""
        (need, *_) = NEEDS[context.header.api_key].needs
        return self._parts.access.admits_broker(context, need)

    async def _answer(
        self, handler: registry.Handler, context: RequestContext, body: memoryview
    ) -> Reply:
        if len(body) <= LARGE:
            key, version = context.header[:2]
            request = codec.decode_request(key, version, body, self._parts.bounds.items_of(key))
            return await self._handle(handler, context, request)
        return await self._answer_large(handler, context, body)

    async def _answer_large(
        self, handler: registry.Handler, context: RequestContext, body: memoryview
    ) -> Reply:
        """The same for a body that may hold a lot: when there is a place for it, and in slices."""
        key, version = context.header[:2]
        async with place_for(key, len(body)) as place:
            steps = codec.decode_request_in_steps(
                key, version, body, self._parts.bounds.items_of(key)
            )
            request = await finished(steps)
            if key in WAITS:
                place.leave()
            return await self._handle(handler, context, request)

    async def _handle(
        self, handler: registry.Handler, context: RequestContext, request: Any
    ) -> Reply:
        header = context.header
        assert handler.handle is not None, APIS[header.api_key].name
        try:
            response = await handler.handle(self._parts, context, request)
        except RequestRefused as refusal:
            response = _failed(handler, header, request, refusal.code, refusal.message)
        except ProtocolError:
            raise
        except StoreUnavailable as fault:
            _tell_of_store(header, fault)
            response = _failed(handler, header, request, ErrorCode.UNKNOWN_SERVER_ERROR, _NO_STORE)
        except Exception:
            log.exception(
                "a request failed", extra={"api": APIS[header.api_key].title, "header": header}
            )
            response = _failed(handler, header, request, ErrorCode.UNKNOWN_SERVER_ERROR, None)
        wait_ms = 0
        if self._parts.quotas.is_timing and not _is_exempt(context):
            wait_ms = self._throttled(context, response)
        reply = await encoded_in_turns(header, response)
        reply.mute_ms = max(reply.mute_ms, wait_ms)
        return reply

    def _throttled(self, context: RequestContext, response: Any) -> int:
        """The time for which a client over its quota is kept waiting.

        It is told in the response; a few have no place for it.
        """
        wait_ms = charge_time(self._parts, context)
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = max(response.throttle_time_ms, wait_ms)
        return wait_ms

    async def _answer_private(
        self, handler: registry.Handler, context: RequestContext, body: memoryview
    ) -> Reply:
        assert handler.handle is not None, f"private api {context.header.api_key}"
        request = private.decode(body, self._parts.bounds.items_of(context.header.api_key))
        try:
            response = {"error_code": 0, **await handler.handle(self._parts, context, request)}
        except RequestRefused as refusal:
            response = {"error_code": int(refusal.code), "error_message": str(refusal)}
        except ProtocolError:
            raise
        except StoreUnavailable as fault:
            _tell_of_store(context.header, fault)
            response = {"error_code": -1, "error_message": _NO_STORE}
        except Exception:
            log.exception("a private request failed", extra={"header": context.header})
            response = {"error_code": -1, "error_message": "the broker failed; see its log"}
        return Reply((encode_response_frame(context.header, private.encode(response)),))


def _is_exempt(context: RequestContext) -> bool:
    """Whether nobody counts the time that this takes: brokers have no quotas."""
    return context.peer.is_broker or context.header.api_key in EXEMPT


def _refuse_stranger(handler: registry.Handler, context: RequestContext, body: memoryview) -> Reply:
    """The refusal for a peer that asks for what only brokers may, without a proof."""
    header, code = context.header, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    key = header.api_key
    title = PrivateKey(key).name if is_private(key) else APIS[key].title
    log.warning(
        "a request that only brokers may make is refused",
        extra={"api": title, "client": context.client_host, "client_id": context.client_id},
    )
    if is_private(key):
        told = {"error_code": int(code), "error_message": f"{title} is for brokers only"}
        return Reply((encode_response_frame(header, private.encode(told)),))
    # Only an answer that has no room for one code for all needs to know what was asked.
    request = None
    if handler.failure is not None:
        if len(body) > LARGE:
            raise ProtocolError(f"{title} of {len(body)} bytes is for brokers only")
        request = codec.decode_request(key, header.api_version, body)
    return encoded(header, _failed(handler, header, request, code, None))


def refusal(header: RequestHeader, body: memoryview, code: ErrorCode) -> Reply | None:
    """The answer of an API to a request that nobody serves here; None where it has none."""
    handler = None if is_private(header.api_key) else registry.handler(header.api_key)
    if handler is None or not is_served(header.api_key, header.api_version) or len(body) > LARGE:
        return None
    try:
        request = codec.decode_request(header.api_key, header.api_version, body)
        return encoded(header, _failed(handler, header, request, code, None))
    except ProtocolError:
        return None


def _tell_of_store(header: RequestHeader, fault: StoreUnavailable) -> None:
    log.warning("a request needs the store, which is away", extra={"header": header, "why": fault})


def _failed_to_serve(header: RequestHeader, fault: Exception) -> ProtocolError:
    """The end of a connection whose request met a fault of ours.

    These APIs answer for each topic or partition what went wrong there; what goes wrong around that
    has no place in their responses.
    """
    log.error("a request failed", extra={"header": header}, exc_info=fault)
    return ProtocolError("the broker failed to serve this")


def encoded(header: RequestHeader, response: Any) -> Reply:
    """The reply that carries this response."""
    body = codec.encode_response(header.api_key, header.api_version, response)
    mute_ms = getattr(response, "throttle_time_ms", 0)
    return Reply((encode_response_frame(header, body),), mute_ms=mute_ms)


async def encoded_in_turns(header: RequestHeader, response: Any) -> Reply:
    """The same for a response that may be large."""
    key, version = header[:2]
    body = await finished(codec.encode_response_in_steps(key, version, response))
    mute_ms = getattr(response, "throttle_time_ms", 0)
    return Reply((encode_response_frame(header, body),), mute_ms=mute_ms)


def _unsupported(header: RequestHeader) -> Reply:
    key = header.api_key
    if key != ApiKey.API_VERSIONS:
        title = APIS[key].title if key in APIS else f"api {key}"
        raise ProtocolError(f"{title} has no version {header.api_version}")
    served = APIS[ApiKey.API_VERSIONS].served
    response = api_versions.Response(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[api_versions.ApiVersion(ApiKey.API_VERSIONS, served.low, served.high)],
    )
    return encoded(header._replace(api_version=0), response)


def _failed(
    handler: registry.Handler,
    header: RequestHeader,
    request: Any,
    code: ErrorCode,
    message: str | None,
) -> Any:
    """The API's way of saying that a request failed as a whole."""
    if handler.failure is not None:
        return handler.failure(request, code, message)
    response = codec.message_class(header.api_key, "Response")()
    names = {field.name for field in fields(response)}
    if "error_code" not in names:
        raise ProtocolError(f"{APIS[header.api_key].title} cannot say that it failed")
    response.error_code = int(code)
    if "error_message" in names:
        response.error_message = message
    return response
