"""A path in a store that is no directory of this machine, with the words that `Path` has.

Jobs are written for paths; this is one whose bytes lie in S3 or HDFS, reached through Arrow's file
systems. It holds nothing but its address, so that it travels to tasks. A file there appears whole
when it is closed, which directories get by writing under another name.

Credentials come from the environment of whoever runs the job, never from an address, which is
printed, logged and written into manifests.
"""

from __future__ import annotations

import fnmatch
import io
import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, Any, Final, NamedTuple

from klamm.model.errors import UsageError
from klamm.pipelines.places.hdfs import hdfs_system

_ADDRESS: Final = re.compile(r"([a-z][a-z0-9+.-]+):/+(.*)", re.DOTALL)
_SCHEMES: Final = {"s3": "s3", "s3a": "s3", "hdfs": "hdfs", "viewfs": "viewfs"}
_BUFFER: Final = 1 << 20
_SECRETS: Final = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")
_CONNECT_SECONDS: Final = 10
_REQUEST_SECONDS: Final = 60


class StoreFault(OSError):
    """A store has refused, or cannot be reached. Its text says why, without secrets."""

    def __init__(self, why: str) -> None:
        super().__init__(0, why)

    def __str__(self) -> str:
        return str(self.strerror)


class Size(NamedTuple):
    """As much of `os.stat_result` as a store knows."""

    st_size: int
    st_mtime: float


def is_address(text: str | PurePath | RemotePath) -> bool:
    """Whether this names a store, and not a directory; a `Path` has lost slashes of it."""
    if isinstance(text, RemotePath) or _ADDRESS.fullmatch(str(text)):
        return True
    return str(text).removesuffix(":") in _SCHEMES and str(text).endswith(":")


class RemotePath:
    """An address below the bucket of a store, or the root of HDFS."""

    __slots__ = ("_inner", "_scheme")

    def __init__(self, address: str) -> None:
        found = _ADDRESS.fullmatch(address)
        if found is None or found[1] not in _SCHEMES:
            known = ", ".join(f"{scheme}://" for scheme in _SCHEMES)
            raise UsageError(
                f"{_unsigned(address)} is not a place that klamm knows: it knows "
                f"directories, {known}"
            )
        rest = found[2]
        if "@" in rest.split("/")[0]:
            raise UsageError(
                f"{_unsigned(address)}: credentials belong into the environment "
                "(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), not into an address"
            )
        if "?" in rest or "#" in rest:
            raise UsageError(
                f"{address.split('?')[0]}: what comes after the path belongs into the environment "
                "(AWS_ENDPOINT_URL, AWS_REGION)"
            )
        parts = [part for part in rest.split("/") if part]
        if not parts or {".", ".."} & set(parts):
            raise UsageError(f"{address} is no address of a place: write s3://bucket/directory")
        self._scheme = _SCHEMES[found[1]]
        self._inner = "/".join(parts)

    # A value like any other.

    def __str__(self) -> str:
        return f"{self._scheme}://{self._inner}"

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __lt__(self, other: RemotePath) -> bool:
        return str(self) < str(other)

    def __truediv__(self, name: str | PurePath) -> RemotePath:
        return RemotePath(f"{self}/{name}") if str(name) not in ("", ".") else self

    @property
    def scheme(self) -> str:
        """The kind of store: s3, hdfs or viewfs."""
        return self._scheme

    @property
    def inner(self) -> str:
        """The bucket and the key; the path in HDFS."""
        return self._inner if self._scheme == "s3" else "/" + self._inner.partition("/")[2]

    @property
    def name(self) -> str:
        """The last part."""
        return posixpath.basename(self._inner)

    @property
    def suffix(self) -> str:
        """The ending, with its dot."""
        return PurePosixPath(self._inner).suffix

    @property
    def parent(self) -> RemotePath:
        """The directory it is in; of a bucket, itself."""
        above = posixpath.dirname(self._inner)
        return RemotePath(f"{self._scheme}://{above}") if above else self

    def with_name(self, name: str) -> RemotePath:
        """Its neighbour."""
        return self.parent / name

    def relative_to(self, other: Path | RemotePath) -> PurePosixPath:
        """The way from another to this."""
        assert isinstance(other, RemotePath), other
        return PurePosixPath(self._inner).relative_to(other._inner)

    def is_relative_to(self, other: Path | RemotePath) -> bool:
        """Whether it lies below another; there are no links in stores."""
        inner = other._inner if isinstance(other, RemotePath) else ""
        return bool(inner) and PurePosixPath(self._inner).is_relative_to(inner)

    def absolute(self) -> RemotePath:
        """It is."""
        return self

    def resolve(self) -> RemotePath:
        """There are no links."""
        return self

    def as_posix(self) -> str:
        """The address."""
        return str(self)

    # What is there.

    def exists(self) -> bool:
        """Whether there is a file, or one below it."""
        return bool(self._info().type)

    def is_file(self) -> bool:
        """Whether there is a file."""
        return bool(self._info().is_file)

    def is_dir(self) -> bool:
        """Whether something lies below it."""
        from pyarrow.fs import FileType

        return bool(self._info().type == FileType.Directory)

    def stat(self) -> Size:
        """Its size."""
        info = self._info()
        if not info.is_file:
            raise FileNotFoundError(2, "No such file or directory", str(self))
        return Size(info.size, (info.mtime_ns or 0) / 1e9)

    lstat = stat

    def open(self, mode: str = "rb", buffering: int = -1) -> IO[bytes]:
        """For reading; or for writing, and then it is there when it is closed."""
        with _plainly(self):
            if mode == "rb":
                raw: Any = self._system().open_input_file(self.inner)
                return io.BufferedReader(raw, _BUFFER if buffering < 0 else max(buffering, 1))
            assert mode == "wb", mode
            return io.BufferedWriter(self._system().open_output_stream(self.inner), _BUFFER)

    def native(self) -> Any:
        """The same for Arrow's own readers."""
        with _plainly(self):
            return self._system().open_input_file(self.inner)

    def read_bytes(self) -> bytes:
        """All of it."""
        with _plainly(self), self._system().open_input_stream(self.inner) as file:
            return bytes(file.read())

    def read_text(self) -> str:
        """All of it, as text."""
        return self.read_bytes().decode()

    def write_bytes(self, data: bytes) -> int:
        """Puts a file there, in the place of another if need be."""
        self._put([data])
        return len(data)

    def write_text(self, text: str) -> int:
        """Puts a text there."""
        return self.write_bytes(text.encode())

    def upload(self, source: Path) -> None:
        """Puts a file of this machine there."""
        with source.open("rb") as file:
            self._put(iter(lambda: file.read(8 * _BUFFER), b""))

    def _put(self, chunks: Iterable[bytes]) -> None:
        """A file that is there whole, or not: HDFS shows files while they are written."""
        with _plainly(self):
            system = self._system()
            replace = getattr(getattr(system, "handler", None), "replace", None)
            name = f".{self.name}.{os.urandom(4).hex()}.draft"
            target = self.with_name(name).inner if replace else self.inner
            with system.open_output_stream(target) as out:
                for chunk in chunks:
                    out.write(chunk)
            if replace:
                replace(target, self.inner)

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:
        """Makes a directory, where a store has such."""
        assert (parents, exist_ok) == (True, True), self
        if self._scheme != "s3":
            with _plainly(self):
                self._system().create_dir(self.inner, recursive=True)

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Removes a file."""
        try:
            with _plainly(self):
                self._system().delete_file(self.inner)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rename(self, target: RemotePath) -> RemotePath:
        """Moves a file: S3 copies it, and removes the first."""
        try:
            with _plainly(self):
                self._system().move(self.inner, target.inner)
        except StoreFault:
            if not self.exists():
                raise FileNotFoundError(2, "No such file or directory", str(self)) from None
            raise
        return target

    def files(self) -> Iterator[RemotePath]:
        """Every file below it, in order."""
        from pyarrow.fs import FileSelector

        with _plainly(self):
            chosen = FileSelector(self.inner, recursive=True, allow_not_found=True)
            found = self._system().get_file_info(chosen)
        host = "" if self._scheme == "s3" else self._inner.partition("/")[0]
        for info in sorted(found, key=lambda info: str(info.path)):
            if info.is_file:
                yield RemotePath(
                    f"{self._scheme}://{host}/{info.path.lstrip('/')}"
                    if host
                    else f"{self._scheme}://{info.path}"
                )

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Files right in it, by their names."""
        for path in self.files():
            if path.parent == self and fnmatch.fnmatchcase(path.name, pattern):
                yield path

    def rglob(self, pattern: str) -> Iterator[RemotePath]:
        """Files below it, by their names."""
        return (p for p in self.files() if fnmatch.fnmatchcase(p.name, pattern))

    def _info(self) -> Any:
        with _plainly(self):
            return self._system().get_file_info(self.inner)

    def _system(self) -> Any:
        return file_system(self._scheme, self._inner.partition("/")[0])


Place = Path | RemotePath


def place_of(text: str | Path | RemotePath) -> Place:
    """The place that somebody names: a directory, or an address."""
    if isinstance(text, RemotePath):
        return text
    return RemotePath(str(text)) if is_address(text) else Path(text).absolute()


def relative(path: Place, directory: Place) -> str:
    """The way from a directory to what is in it."""
    if isinstance(path, RemotePath):
        return path.relative_to(directory).as_posix()
    assert isinstance(directory, Path), directory
    return path.relative_to(directory).as_posix()


def files_below(place: Place) -> Iterator[Place]:
    """Every file below a directory, in order."""
    if isinstance(place, RemotePath):
        yield from place.files()
    else:
        yield from (path for path in sorted(place.rglob("*")) if path.is_file())


@lru_cache(maxsize=16)
def file_system(scheme: str, authority: str) -> Any:
    """Arrow's file system for a store; one a process, for it keeps connections."""
    from pyarrow import fs

    if scheme != "s3":
        return hdfs_system(scheme, authority)
    wanted: dict[str, Any] = {
        "connect_timeout": _CONNECT_SECONDS,
        "request_timeout": _REQUEST_SECONDS,
        "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=3),
    }
    endpoint = endpoint_of(os.environ)
    if endpoint:
        wanted["scheme"], _, wanted["endpoint_override"] = endpoint.partition("://")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region or endpoint:
        wanted["region"] = region or "us-east-1"
    else:
        try:
            wanted["region"] = fs.resolve_s3_region(authority)
        except OSError as fault:
            raise StoreFault(f"s3://{authority}: {_first_line(fault)}") from None
    return fs.S3FileSystem(**wanted)


def endpoint_of(environment: Any) -> str:
    """The S3-compatible server that the environment names; '' is Amazon's."""
    found = str(environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or "")
    if found and not re.fullmatch(r"https?://[^/@\s]+/?", found):
        raise UsageError("AWS_ENDPOINT_URL is written like https://host:port")
    return found.rstrip("/")


@contextmanager
def _plainly(path: RemotePath) -> Iterator[None]:
    """Makes a store's fault one line, with no secret in it."""
    try:
        yield
    except (StoreFault, FileNotFoundError):
        raise
    except (OSError, RuntimeError) as fault:  # HDFS's faults are of both kinds
        raise StoreFault(_first_line(fault)) from None


def _first_line(fault: Exception) -> str:
    lines = str(fault).replace("\\n", "\n").splitlines()
    return without_secrets((lines or [type(fault).__name__])[0])


def without_secrets(text: str) -> str:
    """A text of somebody else's library, without what the environment keeps secret."""
    for name in _SECRETS:
        if (secret := os.environ.get(name)) and len(secret) > 3:
            text = text.replace(secret, "***")
    return text


def _unsigned(address: str) -> str:
    """An address without what stands before an @."""
    return re.sub(r"//?[^/@]*@", "//***@", address)
