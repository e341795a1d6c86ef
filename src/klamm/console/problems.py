"""Answers that say no, as `application/problem+json` for programs and a page for people."""

from __future__ import annotations

from typing import Any, Final

from klamm.client.errors import ClientError, DeadlineExceeded, Unreachable
from klamm.model.errors import ErrorCode, KlammError, RequestRefused

TITLES: Final = {
    400: "The request is not right",
    401: "Sign in first",
    403: "Not allowed",
    404: "Not here",
    405: "Not that way",
    408: "Too slow",
    409: "The plan has changed",
    413: "Too large",
    415: "Not JSON",
    421: "Another host was meant",
    422: "The cluster refuses",
    429: "Too often",
    500: "The console is at fault",
    502: "A broker does not answer",
    504: "It took too long",
}


class Problem(Exception):
    """An answer other than the one that was asked for."""

    def __init__(self, status: int, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.more = more

    def body(self) -> dict[str, Any]:
        """The members of the answer."""
        return {
            "type": "about:blank",
            "title": TITLES.get(self.status, "No"),
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }


def problem_of(error: KlammError | OSError) -> Problem:
    """The answer to whoever asked, where the cluster refused or could not be reached."""
    text = str(error) or type(error).__name__
    if isinstance(error, DeadlineExceeded):
        return Problem(504, text, retry_after_ms=1_000)
    if isinstance(error, Unreachable):
        return Problem(502, text, retry_after_ms=1_000)
    if isinstance(error, RequestRefused):
        denied = error.code in (
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        )
        return Problem(403 if denied else 422, text, kafka_code=error.code.name)
    if isinstance(error, ClientError):
        return Problem(502, text)
    return Problem(422, text)
