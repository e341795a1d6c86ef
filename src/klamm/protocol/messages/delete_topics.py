"""DeleteTopics (key 20), versions 0-6. By hand."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from klamm.protocol.schema import array, int16, int32, string, uuid_


@dataclass(slots=True)
class DeleteTopicState:
    name: str | None = string(default=None, nullable="6+")
    topic_id: uuid.UUID = uuid_()


@dataclass(slots=True)
class Request:
    topics: list[DeleteTopicState] = array(DeleteTopicState, versions="6+")
    topic_names: list[str] = array("string", versions="0-5")
    timeout_ms: int = int32()


@dataclass(slots=True)
class DeletableTopicResult:
    name: str | None = string(nullable="6+")
    topic_id: uuid.UUID = uuid_(versions="6+")
    error_code: int = int16()
    error_message: str | None = string(default=None, nullable="5+", versions="5+")


@dataclass(slots=True)
class Response:
    throttle_time_ms: int = int32(versions="1+")
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
