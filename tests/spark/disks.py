"""Disks that are small, full or closed, where one may mount such things."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Disk:
    """A file system of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, *, but: int = 0) -> None:
        """Takes all the room, or leaves so many bytes."""
        self._filler.unlink(missing_ok=True)
        room = os.statvfs(self.path)
        self._filler.write_bytes(bytes(room.f_bavail * room.f_frsize - but))

    def free(self) -> None:
        """Gives the room back."""
        self._filler.unlink()

    def remount(self, options: str) -> None:
        """Another size, or read-only."""
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.path)], check=True)


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Disk]:
    """A disk for as long as the block runs."""
    path.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    if not shutil.which("mount") or subprocess.run(command, check=False).returncode:
        pytest.skip("this needs the right to mount")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
