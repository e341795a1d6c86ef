"""One file an API, named as the API is. A file that is here is served; there is no other list.

A file has one of

- `async def handle(parts, context, request) -> Response`, with messages of `protocol.messages`;
- `def serve(parts, context, body) -> Answer`, for those that read their bytes
  themselves (Produce and Fetch),

and may have `def failure(request, code, message) -> Response`: the API's answer to a request that
fails as a whole. APIs whose response has an `error_code` of its own need none.

A file that says `BROKERS_ONLY = True` serves brokers of the cluster and nobody else (`proof.py`).

klamm's private APIs are files like the others; their `handle` takes and gives JSON objects.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Final, NamedTuple

from klamm.broker.net.context import RequestContext
from klamm.broker.net.peer import Answer
from klamm.broker.parts import Parts
from klamm.model.errors import ErrorCode
from klamm.protocol.apis import APIS, ApiKey
from klamm.protocol.private import PrivateKey

Handle = Callable[[Parts, RequestContext, Any], Awaitable[Any]]
Serve = Callable[[Parts, RequestContext, memoryview], Answer]
Failure = Callable[[Any, ErrorCode, str | None], Any]


class Handler(NamedTuple):
    """The content of one file: how to handle an API."""

    handle: Handle | None
    serve: Serve | None
    failure: Failure | None
    brokers_only: bool = False


_FILES: Final = frozenset(module.name for module in pkgutil.iter_modules(__path__))
SERVED: Final = tuple(ApiKey(key) for key, api in APIS.items() if api.name in _FILES)
PRIVATE: Final = tuple(key for key in PrivateKey if key.name.lower() in _FILES)


@cache
def handler(key: int) -> Handler | None:
    """The handler of an API, imported when the API is first asked for."""
    if key in SERVED:
        name = APIS[key].name
    elif key in PRIVATE:
        name = PrivateKey(key).name.lower()
    else:
        return None
    module = importlib.import_module(f"{__name__}.{name}")
    return Handler(
        getattr(module, "handle", None),
        getattr(module, "serve", None),
        getattr(module, "failure", None),
        getattr(module, "BROKERS_ONLY", False),
    )
