"""HDFS as one of Arrow's file systems, by `hdfs-native`: Rust, no Java and no libhdfs.

Where that is not installed Arrow's own client is taken, which needs Hadoop's native library.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Final

from klamm.installing import install_command

# A name node that does not answer is asked so often; 15 times, which is usual, take three minutes.
_PATIENCE: Final = {"dfs.client.failover.max.attempts": "4"}


def hdfs_system(scheme: str, authority: str) -> Any:
    """Arrow's file system for a name node; OSError where it cannot be had."""
    from pyarrow import fs

    if find_spec("hdfs_native") is not None:
        return fs.PyFileSystem(_handler(scheme, authority))
    try:
        return fs.FileSystem.from_uri(f"{scheme}://{authority}/")[0]
    except OSError as fault:
        why = (str(fault).splitlines() or [type(fault).__name__])[0]
        raise OSError(
            0,
            f"HDFS needs hdfs-native, which is not installed: `{install_command('hdfs')}` ({why})",
        ) from None


def _handler(scheme: str, authority: str) -> Any:
    from hdfs_native.fsspec import HdfsFileSystem, ViewfsFileSystem
    from pyarrow.fs import FSSpecHandler

    class Handler(FSSpecHandler):  # type: ignore[misc]  # Arrow has no types
        """Tells when files were changed, and may put a file in the place of another."""

        @staticmethod
        def _create_file_info(path: str, info: dict[str, Any]) -> Any:
            told = info | {"mtime": info["modification_time"] / 1000}
            return FSSpecHandler._create_file_info(path, told)

        def replace(self, source: str, target: str) -> None:
            """One atomic step of the name node."""
            self.fs.client.rename(source, target, True)

    host, _, port = authority.partition(":")
    if port and not port.isdecimal():
        raise OSError(0, f"{port!r} is no port")
    kind = HdfsFileSystem if scheme == "hdfs" else ViewfsFileSystem
    return Handler(kind(host or None, int(port) if port else None, **_PATIENCE))
