"""The cluster's own digest: what lets somebody write to a served store.

It lies in a file of the data directory that only its owner may read, as `user:password`. Brokers in
other processes and the commands that change the store show it; it is drawn when there is none.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
from pathlib import Path
from typing import Final

from klamm.model.errors import UsageError
from klamm.store.backups import put_in_place

FILE_NAME: Final = "store.digest"
_USER: Final = "klamm"
_SIZE_MAX: Final = 1024


def digest_id(shown: bytes) -> str:
    """The id by which an ACL knows who showed `user:password`."""
    user, _, _ = shown.partition(b":")
    # ZooKeeper's own form: the hash is no more than a name here, and the password is random.
    hashed = base64.b64encode(hashlib.sha1(shown, usedforsecurity=False).digest())
    return f"{user.decode('utf-8', 'replace')}:{hashed.decode()}"


def read(path: Path) -> str:
    """The digest in a file; UsageError says what is wrong with it."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read(_SIZE_MAX + 1).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the digest of the store in {path} cannot be read: {error}") from error
    if mode & 0o077:
        raise UsageError(f"others can read the digest of the store in {path}: chmod 600 {path}")
    user, colon, password = text.partition(":")
    if not (user and colon and password) or len(text) > _SIZE_MAX or "\n" in text:
        raise UsageError(f"{path} holds no digest of a store, which is one line, user:password")
    return text


def read_or_draw(directory: Path) -> str:
    """The digest of the cluster in this data directory, drawn where there is none."""
    path = directory / FILE_NAME
    if not path.exists():
        drawn = f"{_USER}:{secrets.token_urlsafe(32)}\n"
        put_in_place(lambda draft: _fill(draft, drawn), path)
    return read(path)


def _fill(draft: Path, text: str) -> None:
    draft.write_text(text)
