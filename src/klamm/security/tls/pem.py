"""PEM texts: the private key and the certificates in them (KIP-651).

Text around blocks is ignored, and lines may have been joined by a properties file. Exactly one key,
in PKCS#8, encrypted if and only if there is a password for it.
"""

from __future__ import annotations

import base64
import binascii
import re
import textwrap
from dataclasses import dataclass, field
from typing import Final

from klamm.model.errors import Refused

_BLOCK: Final = re.compile(
    r"-----BEGIN (?P<label>[A-Z0-9 ]{1,64})-----(?P<body>[^-]*)-----END (?P=label)-----"
)
_HEADER_LINE: Final = re.compile(r"^[^:\n]*:[^\n]*$", re.MULTILINE)
_SIZE_MAX: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class PemKey:
    """One private key and its chain, in lines as OpenSSL wants them."""

    key: str = field(repr=False)
    chain: str
    is_encrypted: bool


def certificates(text: str) -> str | Refused:
    """The certificates in a text, at least one."""
    blocks = [block for label, block in _blocks(text) if "CERTIFICATE" in label]
    if not blocks:
        return Refused("At least one certificate expected, but none found")
    return "".join(blocks)


def key_and_chain(key_text: str, chain_text: str, *, has_password: bool) -> PemKey | Refused:
    """The key and the chain of a store; both texts are the same where one file has them."""
    keys = [(label, block) for label, block in _blocks(key_text) if "PRIVATE KEY" in label]
    if not keys:
        return Refused("No matching PRIVATE KEY entries in PEM file")
    if len(keys) > 1:
        return Refused(f"Expected one private key, but found {len(keys)}")
    ((label, key),) = keys
    is_encrypted = label == "ENCRYPTED PRIVATE KEY"
    if label not in ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"):
        return Refused(
            f"The private key is {label}, not PKCS#8. Convert it with `openssl pkcs8 -topk8`"
        )
    if is_encrypted and not has_password:
        return Refused("The private key is encrypted: set ssl.key.password")
    if has_password and not is_encrypted:
        return Refused("ssl.key.password is set, but the private key is not encrypted")
    chain = certificates(chain_text)
    if isinstance(chain, Refused):
        return chain
    return PemKey(key, chain, is_encrypted)


def _blocks(text: str) -> list[tuple[str, str]]:
    """Label and text of each block whose content is base64."""
    found = []
    for match in _BLOCK.finditer(text[:_SIZE_MAX]):
        body = "".join(_HEADER_LINE.sub("", match["body"]).split())
        try:
            base64.b64decode(body, validate=True)
        except (binascii.Error, ValueError):
            continue
        lines = "\n".join(textwrap.wrap(body, 64))
        label = match["label"]
        found.append((label, f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"))
    return found
