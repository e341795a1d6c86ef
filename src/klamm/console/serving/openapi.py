"""The OpenAPI document, written from the table of views and of deeds that also serves them."""

from __future__ import annotations

from typing import Any, Final

from klamm.console.deeds.doing import DEEDS
from klamm.console.params import Param
from klamm.console.scene import View
from klamm.console.views.table import VIEWS
from klamm.version import __version__

_PROBLEM: Final = {"$ref": "#/components/responses/Problem"}
_REFUSALS: Final = ("400", "401", "403", "404", "413", "421", "422", "429", "502", "504")


def document() -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, Any] = {view.api: {"get": _view(view)} for view in VIEWS}
    paths["/api/me"] = {"get": _simple("me", "Who one is here, and what one may do.")}
    paths["/api/load"] = {"get": _simple("load", "What the console asks, and what that costs.")}
    paths["/api/openapi.json"] = {"get": _simple("openapi", "This document.")}
    paths["/api/events"] = {"get": _events()}
    paths["/api/plans"] = {"post": _post("plan", "What a deed would do.", {})}
    paths["/api/actions"] = {
        "post": _post(
            "act",
            "Does what was planned; 409 where the plan is another by now.",
            {"digest": {"type": "string"}, "typed": {"type": "string"}},
        )
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "klamm console", "version": __version__},
        "paths": paths,
        "components": {
            "responses": {
                "Problem": {
                    "description": "why not",
                    "content": {"application/problem+json": {"schema": {"type": "object"}}},
                }
            }
        },
    }


def _parameter(param: Param) -> dict[str, Any]:
    return {
        "name": param.name,
        "in": "path" if param.in_path else "query",
        "required": param.in_path,
        "description": param.about,
        "schema": param.schema,
    }


def _view(view: View) -> dict[str, Any]:
    found = _simple(view.name, view.about or view.title)
    found["parameters"] = [_parameter(param) for param in view.params]
    return found


def _simple(name: str, about: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object"}}}
    return {
        "operationId": name,
        "summary": about,
        "responses": {
            "200": {"description": about, "content": content},
            **dict.fromkeys(_REFUSALS, _PROBLEM),
        },
    }


def _events() -> dict[str, Any]:
    found = _simple("events", "What changes on views, as Server-Sent Events.")
    found["parameters"] = [
        {
            "name": "want",
            "in": "query",
            "required": True,
            "description": "addresses of live views' JSON, such as /api/topics?q=or",
            "schema": {"type": "array", "items": {"type": "string"}, "maxItems": 20, "minItems": 1},
        }
    ]
    found["responses"]["200"] = {
        "description": "events: view, pulse, bye",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
    return found


def _post(name: str, about: str, more: dict[str, Any]) -> dict[str, Any]:
    found = _simple(name, about)
    kinds = list(DEEDS)
    schema = {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"type": "string", "enum": kinds}, **more},
    }
    found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    found["responses"]["409"] = _PROBLEM
    found["responses"]["415"] = _PROBLEM
    found["parameters"] = [
        {
            "name": "X-Klamm-Token",
            "in": "header",
            "required": True,
            "description": "the token of the session; pages have it",
            "schema": {"type": "string"},
        }
    ]
    return found
