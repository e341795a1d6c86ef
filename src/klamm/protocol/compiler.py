"""Turns a message's declaration into two straight-line functions: one writes, one reads.

Walking the declaration for every message would cost more than the work itself, so the walk happens
once for each class and version, and leaves Python source behind: neighbours of fixed width share
one `struct` call, loops over arrays are spelled out, and a version's absent fields do not occur.
What a compiled pair looks like is best seen by printing the `lines` of a `MessageWriter`.

Each comes in two forms from the same declaration. A plain one does its work in one go; one in steps
is a generator that stops after every few items, so that whoever drives it can do something else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from klamm.protocol.compiling.reader import MessageReader
from klamm.protocol.compiling.writer import MessageWriter

Reader = Callable[..., Any]
SteppedReader = Callable[[bytes, int], Generator[None, None, Any]]
SteppedWriter = Callable[[Any], Generator[None, None, bytes]]


def compile_writer(cls: type, version: int, flexible: bool) -> Callable[[Any], bytes]:
    """A function from a message to its bytes in this version."""
    writer = MessageWriter(version, flexible)
    writer.message(cls)
    return writer.function("write")


def compile_stepped_writer(cls: type, version: int, flexible: bool) -> SteppedWriter:
    """The same as a generator that stops every few items and returns the bytes."""
    writer = MessageWriter(version, flexible, stepped=True)
    writer.message(cls)
    return writer.function("write")


def compile_reader(cls: type, version: int, flexible: bool) -> Reader:
    """A function from the bytes of a message in this version, and the most items, to the message.

    Besides `ProtocolError` it raises what running off a buffer raises: IndexError, struct.error,
    UnicodeDecodeError. The codec makes one of them all.
    """
    reader = MessageReader(version, flexible)
    reader.message(cls)
    return reader.function("read")


def compile_stepped_reader(cls: type, version: int, flexible: bool) -> SteppedReader:
    """The same as a generator that stops every few items and returns the message."""
    reader = MessageReader(version, flexible, stepped=True)
    reader.message(cls)
    return reader.function("read")
