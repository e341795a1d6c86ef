"""The subject of a certificate as RFC 2253 text, letter by letter as Java writes it.

The most specific part comes first. Nine attributes have keywords; of every other, such as an e-mail
address, the number and the raw value are shown in hexadecimal. Rules and ACLs of a Kafka cluster
are written against this text, so another spelling would lock people out, or in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from klamm.model.errors import Refused

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.6": "C",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# ASN.1's kinds of text, and how each is encoded.
_TEXTS: Final = {
    12: "utf-8",
    19: "ascii",
    20: "latin-1",
    22: "ascii",
    27: "latin-1",
    28: "utf-32-be",
    30: "utf-16-be",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_SEQUENCE, _SET, _OID = 0x30, 0x31, 0x06


def name_text(der: bytes) -> str | Refused:
    """The text of a name in DER (`subject.public_bytes()` of the cryptography package)."""
    try:
        ((tag, body, _),) = elements(der)
        if tag != _SEQUENCE:
            raise ValueError("not a name")
        parts = ["+".join(_attributes(content)) for tag, content, _ in elements(body)]
    except (ValueError, IndexError):
        return Refused("the subject of the certificate is no name in DER")
    return ",".join(reversed(parts))


def _attributes(content: bytes) -> Iterator[str]:
    for _, attribute, _ in elements(content):
        (tag, oid, _), (kind, value, whole) = elements(attribute)
        if tag != _OID:
            raise ValueError("not an attribute")
        number = oid_number(oid)
        keyword = _KEYWORDS.get(number)
        if keyword is None or kind not in _TEXTS:
            yield f"{keyword or number}=#{whole.hex()}"
        else:
            yield f"{keyword}={_escaped(value.decode(_TEXTS[kind]))}"


def _escaped(text: str) -> str:
    body = "".join(
        f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in text
    )
    leading = len(text) - len(text.lstrip(" "))
    trailing = len(text) - len(text.rstrip(" ")) if leading < len(text) else 0
    core = body[leading : len(body) - trailing]
    return "\\ " * leading + core + "\\ " * trailing


def elements(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """The elements that follow each other: tag, content, and the whole of it."""
    found = []
    at = 0
    while at < len(data):
        start, tag, size = at, data[at], data[at + 1]
        at += 2
        if size >= 0x80:
            count = size & 0x7F
            if not 1 <= count <= 3:
                raise ValueError("a length that no name has")
            size = int.from_bytes(data[at : at + count])
            at += count
        if at + size > len(data):
            raise ValueError("an element that is cut off")
        found.append((tag, data[at : at + size], data[start : at + size]))
        at += size
    return found


def oid_number(oid: bytes) -> str:
    """An object identifier in its dotted form."""
    numbers: list[int] = []
    value = 0
    for byte in oid:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
