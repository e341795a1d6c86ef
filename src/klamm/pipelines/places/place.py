"""Places by their names, and files that are there once: put where none is, or in the place of one.

    local directory   a link to a finished draft, which fails where the name is taken
    S3                a conditional PUT (If-None-Match, If-Match), through `obstore`
    HDFS              a rename, which fails where the name is taken; one that replaces asks nothing

Arrow's own S3 has no conditional PUT, which is why `obstore` does that one thing. What a store does
not promise is said in docs/reference/spark.md.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from klamm.installing import install_command
from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.jobs.writing import not_written
from klamm.pipelines.places.remote import (
    Place,
    RemotePath,
    StoreFault,
    endpoint_of,
    place_of,
    without_secrets,
)

_CHUNK: Final = 1 << 20


class Taken(KlammError):
    """Somebody else has put a file there meanwhile."""


def for_arrow(path: Place) -> Any:
    """The form that Arrow's readers take."""
    return path if isinstance(path, Path) else path.native()


def sha256_of(path: Place) -> str:
    """The checksum of a whole file."""
    if isinstance(path, Path):
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    total = hashlib.sha256()
    with path.native() as opened:
        while chunk := opened.read(8 * _CHUNK):
            total.update(chunk)
    return total.hexdigest()


def put_if_absent(path: Place, data: bytes) -> None:
    """Puts a small file where none is; `Taken` where one is already."""
    try:
        if isinstance(path, Path):
            _link(path, data)
        elif path.scheme == "s3":
            _conditional(path, data, "create")
        else:
            _renamed(path, data)
    except FileExistsError:
        raise Taken(f"{path} is there already") from None
    except OSError as fault:
        raise not_written(fault, path) from None


def _link(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
        _sync_directory(path.parent)
    finally:
        with suppress(OSError):
            draft.unlink()


def _sync_directory(directory: Path) -> None:
    """A name is there after a loss of power when its directory is on the disk."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _renamed(path: RemotePath, data: bytes) -> None:
    if path.exists():
        raise FileExistsError
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}.draft")
    draft.write_bytes(data)
    try:
        draft.rename(path)
    except OSError:
        if path.exists():
            raise FileExistsError from None
        raise
    finally:
        draft.unlink(missing_ok=True)


def version_of(path: RemotePath) -> Any:
    """The mark by which a store knows this content of a file; None where there is no file."""
    if path.scheme != "s3":
        return None
    import obstore

    try:
        return obstore.head(_store(path), path.name).get("e_tag")
    except FileNotFoundError:
        return None
    except obstore.exceptions.BaseError as fault:
        raise StoreFault(_told(fault)) from None


def put_after(path: RemotePath, text: str, version: Any) -> None:
    """A file in the place of the one that was there with this mark; `Taken` if it is another."""
    try:
        if path.scheme != "s3":
            path.write_text(text)
        else:
            _conditional(path, text.encode(), {"e_tag": version} if version else "create")
    except FileExistsError:
        raise Taken(f"{path} has changed meanwhile") from None
    except OSError as fault:
        raise KlammError(f"cannot write {path}: {fault}") from None


def _conditional(path: RemotePath, data: bytes, mode: Any) -> None:
    import obstore

    try:
        obstore.put(_store(path), path.name, data, mode=mode, use_multipart=False)
    except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
        raise FileExistsError from None
    except obstore.exceptions.BaseError as fault:
        raise StoreFault(_told(fault)) from None


def _store(path: RemotePath) -> Any:
    from obstore.store import from_url

    endpoint = endpoint_of(os.environ)
    return from_url(
        str(path.parent),
        client_options={
            "timeout": "60s",
            "connect_timeout": "10s",
            "allow_http": endpoint.startswith("http://"),
        },
        retry_config={"max_retries": 3},
    )


def _told(fault: Exception) -> str:
    return without_secrets(str(fault).splitlines()[0])


def require_place(path: Place) -> None:
    """Says what is missing for a place, before anything that takes time begins."""
    if isinstance(path, RemotePath) and path.scheme == "s3" and find_spec("obstore") is None:
        raise UsageError(f"{path} needs obstore, which is not installed: `{install_command('s3')}`")


def check_writable(name: str | Place) -> None:
    """Says at once whether something can be put there, by the name that somebody has given it."""
    path = place_of(name)
    require_place(path)
    if isinstance(path, Path):
        _make_directory(Path(str(name)))
        return
    probe = path / f".klamm-{os.urandom(4).hex()}.draft"
    try:
        probe.write_bytes(b"")
        probe.unlink(missing_ok=True)
    except OSError as fault:
        raise UsageError(f"cannot write to {path}: {fault}") from None


def _make_directory(directory: Path) -> None:
    """A directory that takes files, before anything that takes time begins."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # Permissions tell less than a try: a whole file system may be read-only.
        tempfile.TemporaryFile(dir=directory).close()
    except FileExistsError:
        raise UsageError(f"{directory} is a file, not a directory") from None
    except OSError as fault:
        raise UsageError(f"cannot write to {directory}: {fault.strerror}") from None
