"""A Spark that several commands share: `klamm spark serve` runs it, others find it by themselves.

It is a server of Spark Connect on the loopback device, and whoever may use it can run code as the
one who started it. So it wants a token, which lies in a file that nobody else may read; a file that
others could read or have written is not believed, nor is a port that another user listens on. The
server holds a lock for as long as it lives: where the lock is free, the file is about a dead one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from klamm.installing import install_command
from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.session.java import state_directory
from klamm.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AUTO: Final = "auto"  # the Spark that is shared; where there is none, one of this machine
HERE: Final = "local[*]"
_FILE: Final = "spark.json"
_LOCK: Final = "spark.lock"
_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # unlike an argument, seen by nobody else
_FILE_MAX: Final = 4096
_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class SharedSpark:
    """A Spark that is served."""

    pid: int
    port: int
    token: str
    master: str
    python: str
    version: str
    since_ms: int

    def told(self) -> dict[str, Any]:
        """All of it but the token."""
        return {k: v for k, v in asdict(self).items() if k != "token"}


def shared_spark(environment: Mapping[str, str] = os.environ) -> SharedSpark | None:
    """The Spark that is served to this user, by this klamm; None where there is none.

    One of another klamm or Python is passed over: its tasks would run other code.
    """
    found = served_spark(environment)
    if found is None or (found.python, found.version) != (sys.executable, __version__):
        return None
    return found


def served_spark(environment: Mapping[str, str] = os.environ) -> SharedSpark | None:
    """The Spark that is served to this user, whatever klamm it is of."""
    place = state_directory(environment)
    return _read(place / _FILE) if _is_held(place / _LOCK) else None


def _is_held(path: Path) -> bool:
    """Whether a server lives; if not, whatever is written about it is old."""
    try:
        with path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def end(found: SharedSpark, within_s: float, environment: Mapping[str, str] = os.environ) -> bool:
    """Ends the server and waits until it has; whether it has."""
    lock, deadline = state_directory(environment) / _LOCK, time.monotonic() + within_s
    with contextlib.suppress(ProcessLookupError):
        os.kill(found.pid, signal.SIGTERM)
    while _is_held(lock):
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


def _read(path: Path) -> SharedSpark | None:
    """Reads the file, which is not there while the server is starting."""
    try:
        with path.open("rb") as file:
            refuse_open(path, os.fstat(file.fileno()))
            found = SharedSpark(**json.loads(file.read(_FILE_MAX)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as fault:
        raise KlammError(f"{path} cannot be read ({fault}): remove it") from None
    if _owner_of(found.port) not in (os.getuid(), None):
        raise KlammError(
            f"another user listens on port {found.port}, which {path} names: the token was not "
            "sent; remove that file"
        )
    return found


def refuse_open(path: Path, found: os.stat_result) -> None:
    """Refuses what another user could have written, or could read."""
    for place, facts in ((path, found), (path.parent, path.parent.stat())):
        others = stat.S_IWGRP | stat.S_IWOTH
        if place is path:
            others |= stat.S_IRGRP | stat.S_IROTH
        if facts.st_uid != os.getuid() or facts.st_mode & others:
            raise UsageError(
                f"{place} is open to other users, so that a shared Spark cannot be trusted: "
                f"`chmod go-rwx {place}`, or remove {path}"
            )


def _owner_of(port: int) -> int | None:
    """The user whose process listens on this port of the loopback device, as far as is known."""
    wanted = f"0100007F:{port:04X}"
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1] == wanted and fields[3] == "0A":
                return int(fields[7])
    return None


def join(found: SharedSpark, settings: Mapping[str, str]) -> SparkSession:
    """A session on the Spark that is shared."""
    require_connect()
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    class Loopback(DefaultChannelBuilder):
        """PySpark sends a token without TLS to `localhost` alone, which may be two addresses."""

        def toChannel(self) -> Any:
            local = grpc.local_channel_credentials(grpc.LocalConnectionType.LOCAL_TCP)
            token = grpc.access_token_call_credentials(found.token)
            both = grpc.composite_channel_credentials(local, token)
            return self._secure_channel(f"127.0.0.1:{found.port}", both)

    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # PySpark's functions ask it which kind they are
    builder = ConnectSession.builder.channelBuilder(Loopback(f"sc://localhost:{found.port}"))
    for key, value in settings.items():
        builder = builder.config(key, value)
    session: Any = builder.getOrCreate()
    spark: SparkSession = session
    return spark


def require_connect() -> None:
    """Says what Spark Connect needs."""
    if find_spec("grpc") is None:
        raise UsageError(f"this needs Spark Connect: `{install_command('connect')}`")


@contextlib.contextmanager
def serving(
    master: str, start: Callable[[], SparkSession], environment: Mapping[str, str] = os.environ
) -> Iterator[tuple[SharedSpark, Any]]:
    """Serves a Spark while the block runs; gives what there is to tell, and its Java's process."""
    require_connect()
    place = state_directory(environment)
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(place), _removed_after(place / _FILE):
        token = secrets.token_urlsafe(32)
        os.environ[_TOKEN] = token
        spark = start()
        try:
            port = _open_service(spark)
            found = SharedSpark(
                os.getpid(),
                port,
                token,
                master,
                sys.executable,
                __version__,
                int(time.time() * 1000),
            )
            _write(place / _FILE, found)
            yield found, getattr(spark.sparkContext._gateway, "proc", None)
        finally:
            (place / _FILE).unlink(missing_ok=True)
            spark.stop()


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    with (place / _LOCK).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                "a Spark is served already: `klamm spark status` tells which, "
                "`klamm spark stop` ends it"
            ) from None
        yield


@contextlib.contextmanager
def _removed_after(path: Path) -> Iterator[None]:
    """Removes the file, also that of an earlier server: it would be believed while this starts."""
    path.unlink(missing_ok=True)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _open_service(spark: SparkSession) -> int:
    """Starts Spark Connect inside a running Spark; the port it chose."""
    jvm, context = spark.sparkContext._jvm, spark.sparkContext._jsc.sc()
    assert jvm is not None, "the session was just started here"
    context.conf().set("spark.connect.grpc.binding.address", "127.0.0.1")
    context.conf().set("spark.connect.grpc.binding.port", "0")
    service = jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(service, "SparkConnectService$"), "MODULE$")
    service.start(context)
    return int(service.localPort())


def _write(path: Path, found: SharedSpark) -> None:
    draft = path.with_suffix(f".{os.getpid()}")
    draft.unlink(missing_ok=True)
    number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(number, "w") as file:
        json.dump(asdict(found), file)
    draft.rename(path)
