"""Schemas by their numbers: from the files of a directory, or asked of a registry.

Whatever a record names is asked for, so questions are bounded: in time, in size, and in how many
numbers that do not exist are asked about. A schema never changes once it has a number, so each is
asked for once. A registry that does not answer is an error, not a bad value: a value that could be
read an hour later must not be written down as one that nobody can read.

The user and password, or the token, of a registry come from the environment. They are sent to the
address that was named and to no other: redirects are not followed.
"""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import (
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from klamm.client.registry.framing import Undecodable
from klamm.model.errors import KlammError, UsageError

SCHEMA_BYTES_MAX: Final = 4 << 20
_TIMEOUT_S: Final = 10.0
_ATTEMPTS: Final = 3
_PAUSE_S: Final = 0.5
_MISSING_MAX: Final = 1000  # numbers that do not exist, asked for before we stop asking
_REFERENCES_MAX: Final = 200
_NUMBERED: Final = re.compile(r"(?:.*[-_.])?(\d{1,10})\.avsc", re.DOTALL)
_USER: Final = "KLAMM_REGISTRY_USER"
_PASSWORD: Final = "KLAMM_REGISTRY_PASSWORD"
_TOKEN: Final = "KLAMM_REGISTRY_TOKEN"
_CA: Final = "KLAMM_REGISTRY_CA"


class RegistryUnavailable(KlammError):
    """A registry does not answer, or not as registries do."""


@dataclass(frozen=True, slots=True)
class DescribedSchema:
    """A schema, and those of other names that it refers to, which come first."""

    schema: Any
    references: tuple[Any, ...] = ()


class Schemas(Protocol):
    """Whoever knows schemas."""

    def described(self, number: int) -> DescribedSchema:
        """The schema of a number; Undecodable where there is none."""


@dataclass(frozen=True, slots=True)
class SchemaPlace:
    """The place of schemas, as text that travels to tasks; secrets stay in the environment."""

    url: str = ""
    directory: str = ""

    def opened(self) -> Schemas:
        """Something to ask."""
        if self.url:
            return Registry(self.url, _authorization(os.environ))
        return SchemaFiles(Path(self.directory))


class SchemaFiles:
    """A directory of files such as `orders-17.avsc` or `17.avsc`, of schema number 17."""

    def __init__(self, directory: Path) -> None:
        self._files: dict[int, Path] = {}
        try:
            paths = sorted(directory.iterdir())
        except OSError as fault:
            raise UsageError(
                f"the schemas in {directory} cannot be read: {fault.strerror}"
            ) from None
        for path in paths:
            if path.suffix != ".avsc":
                continue
            found = _NUMBERED.fullmatch(path.name)
            if found is None:
                raise UsageError(f"{path} names no schema number: call it NAME-NUMBER.avsc")
            if (number := int(found[1])) in self._files:
                raise UsageError(f"{path} and {self._files[number]} are both of number {number}")
            self._files[number] = path
        if not self._files:
            raise UsageError(f"{directory} holds no schemas: files called NAME-NUMBER.avsc")
        self._directory = directory

    def described(self, number: int) -> DescribedSchema:
        """The schema in the file of this number."""
        if number not in self._files:
            raise Undecodable(f"{self._directory} has no schema of number {number}")
        path = self._files[number]
        try:
            if path.stat().st_size > SCHEMA_BYTES_MAX:
                raise UsageError(f"{path} is too large for a schema")
            return DescribedSchema(json.loads(path.read_text()))
        except OSError as fault:
            raise UsageError(f"{path} cannot be read: {fault.strerror}") from None
        except (ValueError, RecursionError):
            raise UsageError(f"{path} is no JSON") from None


class _Stay(HTTPRedirectHandler):
    """Goes nowhere else: what is sent is meant for one server."""

    def redirect_request(self, *_args: Any, **_more: Any) -> None:
        return None


@dataclass
class Registry:
    """A schema registry at an address."""

    url: str
    authorization: str = field(default="", repr=False)
    timeout_s: float = _TIMEOUT_S
    _missing: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError("a registry is named like https://host:port")
        if parts.username or parts.password:
            raise UsageError(
                f"the registry's user and password belong into {_USER} and {_PASSWORD}, not into "
                "its address"
            )
        if self.authorization and parts.scheme == "http" and not _is_here(parts.hostname):
            raise UsageError(
                f"the registry {self.url} would be sent a secret in clear text: use https"
            )
        self.url = self.url.rstrip("/")
        self._opener = _opener(parts.scheme)

    def described(self, number: int) -> DescribedSchema:
        """The schema of a number, and all that it refers to."""
        if number in self._missing:
            raise Undecodable(f"the registry has no schema of number {number}")
        if len(self._missing) >= _MISSING_MAX:
            raise Undecodable(
                f"schema number {number} was not asked for: {_MISSING_MAX} others do not exist"
            )
        found = self._asked(f"/schemas/ids/{number}")
        if found is None:
            self._missing.add(number)
            raise Undecodable(f"the registry has no schema of number {number}")
        if (kind := found.get("schemaType", "AVRO")) != "AVRO":
            raise Undecodable(f"schema number {number} is of the type {str(kind)[:20]}, not Avro")
        references: dict[tuple[str, int], Any] = {}
        self._gather(found.get("references", []), references)
        return DescribedSchema(_parsed(found), tuple(references.values()))

    def _gather(self, named: Any, into: dict[tuple[str, int], Any]) -> None:
        """Follows references, the innermost first."""
        for each in named if isinstance(named, list) else ():
            try:
                key = (str(each["subject"]), int(each["version"]))
            except (KeyError, TypeError, ValueError, OverflowError):
                raise RegistryUnavailable(f"{self.url} sends references without names") from None
            if key in into:
                continue
            if len(into) >= _REFERENCES_MAX:
                raise Undecodable("its schema refers to too many others")
            into[key] = None  # for a circle
            path = f"/subjects/{quote(key[0], safe='')}/versions/{key[1]}"
            if (found := self._asked(path)) is None:
                raise Undecodable(f"its schema refers to {key[0]}, which the registry has not")
            self._gather(found.get("references", []), into)
            del into[key]
            into[key] = _parsed(found)

    def _asked(self, path: str) -> Mapping[str, Any] | None:
        """An answer; None for what is not there."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._answer(path)
            except HTTPError as fault:
                fault.close()
                if fault.code == 404:
                    return None
                if fault.code in (401, 403):
                    raise RegistryUnavailable(
                        f"the registry {self.url} lets nobody in with these credentials "
                        f"({fault.code}): set {_USER} and {_PASSWORD}, or {_TOKEN}"
                    ) from None
                why = f"it answers {fault.code}"
                if fault.code < 500:
                    break
            except (URLError, OSError, TimeoutError) as fault:
                reason = fault.reason if isinstance(fault, URLError) else fault
                why = str(reason) or type(reason).__name__
            except HTTPException as fault:
                why = f"it does not speak HTTP ({type(fault).__name__})"
            if attempt + 1 < _ATTEMPTS:
                time.sleep(_PAUSE_S * (attempt + 1))
        raise RegistryUnavailable(f"the registry {self.url} cannot be asked: {why}")

    def _answer(self, path: str) -> Mapping[str, Any]:
        request = Request(f"{self.url}{path}")
        request.add_header("Accept", "application/vnd.schemaregistry.v1+json, application/json")
        if self.authorization:
            request.add_unredirected_header("Authorization", self.authorization)
        deadline = time.monotonic() + self.timeout_s
        body = b""
        with self._opener.open(request, timeout=self.timeout_s) as answer:
            while chunk := answer.read1(SCHEMA_BYTES_MAX):
                body += chunk
                if len(body) > SCHEMA_BYTES_MAX:
                    raise RegistryUnavailable(f"the registry {self.url} sends more than a schema")
                if time.monotonic() > deadline:  # each byte in time is not an answer in time
                    raise TimeoutError(f"its answer takes more than {self.timeout_s:.0f} s")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise RegistryUnavailable(f"the registry {self.url} sends no JSON") from None
        if not isinstance(found, dict):
            raise RegistryUnavailable(f"the registry {self.url} sends no schema")
        return found


def _parsed(found: Mapping[str, Any]) -> Any:
    try:
        return json.loads(found["schema"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Undecodable("the registry's schema is no JSON") from None


def _opener(scheme: str) -> OpenerDirector:
    handlers: list[Any] = [_Stay(), ProxyHandler({})]
    if scheme == "https":
        try:
            handlers.append(
                HTTPSHandler(context=ssl.create_default_context(cafile=os.environ.get(_CA) or None))
            )
        except OSError as fault:
            raise UsageError(f"{_CA} cannot be read: {fault.strerror or fault}") from None
    return build_opener(*handlers)


def _authorization(environment: Mapping[str, str]) -> str:
    if token := environment.get(_TOKEN):
        return f"Bearer {token}"
    user, password = environment.get(_USER), environment.get(_PASSWORD)
    if not user:
        return ""
    return "Basic " + base64.b64encode(f"{user}:{password or ''}".encode()).decode()


def _is_here(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
