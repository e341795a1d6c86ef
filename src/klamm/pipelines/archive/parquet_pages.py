"""Estimates the memory that a Parquet file would take, before any of it is opened.

A file's footer is written by whoever wrote the file, and so are the sizes in it. What a reader
allocates is decided by the header of each page: its size when it is unpacked, how many values it
has and how they are coded. A few bytes can stand for gigabytes there, by compression or by a
dictionary whose one long value is meant a million times. So all page headers are read, without
their pages, and each is charged with the most that it can become.
"""

from __future__ import annotations

from typing import IO, Any, Final, NamedTuple

from klamm.pipelines.places.remote import Place

_DATA, _INDEX, _DICTIONARY, _DATA_V2 = range(4)
# Encodings, by their numbers in the format.
_PLAIN: Final = 0
_DELTA_LENGTH: Final = 6
_DELTA_BYTES: Final = 7
_BY_DICTIONARY: Final = frozenset({2, 8})
_WIDE: Final = frozenset({"BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY", "INT96"})
_VALUE_BYTES: Final = 16  # of one value of fixed width, with its levels and its place
_HEADER_BYTES: Final = 1 << 12
_HEADER_BYTES_MAX: Final = 1 << 20  # statistics hold a value each, and may be long
_DEPTH_MAX: Final = 8


class PageFault(Exception):
    """A page header that makes no sense."""


class Page(NamedTuple):
    """The content of a page's header."""

    kind: int
    size: int  # when it is unpacked
    packed: int
    values: int
    encoding: int


def group_costs(path: Place, metadata: Any, *, expanding: bool = True) -> list[int]:
    """The most memory that each row group of a file can take; PageFault where none can be told.

    A reader that leaves texts in their dictionaries is not `expanding`.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        return [
            sum(
                _column_cost(file, size, group.column(at), expanding)
                for at in range(group.num_columns)
            )
            for group in map(metadata.row_group, range(metadata.num_row_groups))
        ]


def _column_cost(file: IO[bytes], size: int, column: Any, expanding: bool) -> int:
    position = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset is not None:
        position = min(position, column.dictionary_page_offset)
    if position < 0:
        raise PageFault("a column begins before its file")
    end = min(position + column.total_compressed_size, size)
    is_wide = column.physical_type in _WIDE
    cost = values = dictionary = 0
    while values < column.num_values and position < end:
        header, length = _read_page(file, position)
        if header.kind == _DICTIONARY:
            dictionary = header.size if expanding else 0
        elif header.kind in (_DATA, _DATA_V2):
            values += header.values
        cost += _page_cost(header, dictionary, is_wide=is_wide)
        position += length + header.packed
    return cost


def _page_cost(page: Page, dictionary: int, *, is_wide: bool) -> int:
    own = page.size + page.values * _VALUE_BYTES
    if not is_wide or page.kind not in (_DATA, _DATA_V2) or page.encoding == _PLAIN:
        return own
    if page.encoding in _BY_DICTIONARY:
        return own + page.values * dictionary
    if page.encoding == _DELTA_LENGTH:
        return own
    # Each value may repeat the one before, and all of that one's length.
    return own + page.values * page.size


def _read_page(file: IO[bytes], position: int) -> tuple[Page, int]:
    """The page header at a position, and its length."""
    wanted = _HEADER_BYTES
    while True:
        file.seek(position)
        data = file.read(wanted)
        try:
            return parse_page(data)
        except IndexError:
            if len(data) < wanted or wanted >= _HEADER_BYTES_MAX:
                raise PageFault(f"there is no page at byte {position}") from None
            wanted *= 16


def parse_page(data: bytes) -> tuple[Page, int]:
    """A page header and its length; IndexError where it goes on behind these bytes."""
    reader = _Compact(data)
    fields = reader.struct()
    kind, size, packed = (fields.get(number) for number in (1, 2, 3))
    about = next((f for n in (5, 7, 8) if isinstance(f := fields.get(n), dict)), {})
    values, encoding = about.get(1, 0), about.get(4 if 8 in fields else 2, _PLAIN)
    numbers = (kind, size, packed, values, encoding)
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise PageFault("a page header lacks its sizes, or has negative ones")
    return Page(*numbers), reader.at  # type: ignore[arg-type]


class _Compact:
    """As much of Thrift's compact protocol as page headers need."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def struct(self, depth: int = 0) -> dict[int, object]:
        """The fields by number: numbers and structs as they are, anything else skipped."""
        if depth > _DEPTH_MAX:
            raise PageFault("a page header is nested too deeply")
        fields: dict[int, object] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            fields[number] = self._value(head & 0x0F, depth)
        return fields

    def _value(self, kind: int, depth: int) -> object:
        match kind:
            case 1 | 2:
                return kind == 1
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._zigzag()
            case 7:
                self._skip(8)
                return None
            case 8:
                self._skip(self._varint())
                return None
            case 12:
                return self.struct(depth + 1)
        raise PageFault("a page header has fields that no page has")

    def _byte(self) -> int:
        value = self._data[self.at]
        self.at += 1
        return value

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise PageFault("a page header has a number that is too long")
        return value | byte << shift

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self._data):
            raise IndexError
