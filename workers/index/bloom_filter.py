"""Bloom filters of record keys, byte for byte as Apache Hudi keeps them in base files (format page
4.5), built and queried a column of keys at a time.

A filter never forgets a key: it excludes only keys that were not added.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workers.errors import MalformedTable
from workers.files.footer_keys import FilterText
from workers.files.key_bytes import text_chunks
from workers.index.bloom_hash import key_blocks
from workers.options.bloom_options import HEADER_BYTES, ROWS_HEADER_BYTES, BloomOptions, FilterType

_VERSION: Final = -1
_MURMUR: Final = 1
_HEADER: Final = struct.Struct(">iibi")
_ROWS_HEADER: Final = struct.Struct(">iii")
assert (_HEADER.size, _ROWS_HEADER.size) == (HEADER_BYTES, ROWS_HEADER_BYTES)
_HASHES_MAX: Final = 1_074
"""No share of false positives that a number can hold asks for more."""
_FIRST_HASHES: Final = 4
"""In a full filter they pass one absent key in sixteen."""

Bits: TypeAlias = npt.NDArray[np.uint8]
Keys: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"


@dataclass(frozen=True, slots=True, eq=False)
class BloomFilter:
    """One filter in memory, of either of Hudi's types (`SIMPLE`, `DYNAMIC_V0`); never changed."""

    kind: FilterType
    bits: int
    """The number of bits in each row."""
    hashes: int
    rows: tuple[Bits, ...]
    """Bit i of a row is bit i & 7 of its byte i >> 3. A key is in one of them."""
    entries: int = 0
    """Keys that a row of a dynamic filter is made for."""
    count: int = 0
    """Keys since the last row of a dynamic filter was added."""

    @classmethod
    def of_keys(cls, keys: Keys, options: BloomOptions | None = None) -> BloomFilter:
        """Build a filter of these keys, sized by `options` or Hudi's defaults. Raises InvalidInput
        for keys that are null, empty, or not text.
        """
        builder = BloomFilterBuilder(options or BloomOptions())
        builder.add(keys)
        return builder.built()

    def might_contain(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Return False for each key that is certainly not in the filter.

        Raises InvalidInput for keys that are null, empty, or not text.
        """
        return HashedKeys(keys).might_be_in(self)

    def _holds(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Check the keys with all hashes."""
        is_held = np.zeros(len(keys), np.bool_)
        for block in key_blocks(keys):
            held = np.ones((len(self.rows), len(block.rows)), np.bool_)
            for _ in range(self.hashes):
                self._narrow(held, block.next_places(self.bits))
            is_held[block.rows] = np.any(held, axis=0)
        return is_held

    def _narrow(self, held: npt.NDArray[np.bool_], places: npt.NDArray[Any]) -> None:
        """Clear, in each row, the keys whose bit at these places is not set."""
        byte, bit = places >> 3, (places & 7).astype(np.uint8)
        for row, is_held in zip(self.rows, held, strict=True):
            is_held &= (row[byte] >> bit & 1).view(np.bool_)

    def to_text(self) -> str:
        """Return the text in a base file's footer: Hudi's serialized form in base64."""
        header = _HEADER.pack(_VERSION, self.hashes, _MURMUR, self.bits)
        parts = [header]
        if self.kind is FilterType.DYNAMIC_V0:
            parts += [_ROWS_HEADER.pack(self.entries, self.count, len(self.rows))]
            parts += [part for row in self.rows for part in (header, row.tobytes())]
        else:
            parts += [self.rows[0].tobytes()]
        return base64.b64encode(b"".join(parts)).decode("ascii")

    @classmethod
    def from_text(cls, text: str, type_code: str) -> BloomFilter:
        """Parse the filter of a base file's footer, which names its type by `type_code`. Raises
        MalformedTable for a text that Apache Hudi would not have written.
        """
        try:
            kind = FilterType(type_code.upper())
        except ValueError as error:
            raise MalformedTable("unknown type of bloom filter", type_code=type_code) from error
        try:
            content = base64.b64decode(text, validate=True)
            return _parse_filter(content, kind)
        except (binascii.Error, struct.error, ValueError) as error:
            raise MalformedTable("bloom filter is damaged", reason=error) from error


class HashedKeys:
    """Keys for a lookup in many filters in turn: a few hashes, which are the same for every filter
    of a size, are enough to exclude most absent keys.
    """

    def __init__(self, keys: Keys) -> None:
        """Hash the keys. Raises InvalidInput for keys that are null, or not text."""
        self.keys = pa.chunked_array(text_chunks(keys), None if len(keys) else pa.string())
        self._first: dict[int, npt.NDArray[np.uint32]] = {}

    def might_be_in(
        self, bloom_filter: BloomFilter, among: npt.NDArray[np.bool_] | None = None
    ) -> npt.NDArray[np.bool_]:
        """Return the same as `BloomFilter.might_contain`; only keys that are `among` these are
        checked.

        Raises InvalidInput for empty keys.
        """
        might_be = np.ones(len(self.keys), np.bool_) if among is None else among.copy()
        places = self._first_places(bloom_filter.bits)[: bloom_filter.hashes]
        if among is not None:
            places = places[:, among]
        held = np.ones((len(bloom_filter.rows), places.shape[1]), np.bool_)
        for hashed in places:
            bloom_filter._narrow(held, hashed)
        might_be[might_be] = np.any(held, axis=0)
        if might_be.any():
            might_be[might_be] = bloom_filter._holds(self.keys.filter(pa.array(might_be)))
        return might_be

    def _first_places(self, bits: int) -> npt.NDArray[np.uint32]:
        if bits not in self._first:
            places = np.empty((_FIRST_HASHES, len(self.keys)), np.uint32)
            for block in key_blocks(self.keys):
                for hashed in places:
                    hashed[block.rows] = block.next_places(bits)
            self._first[bits] = places
        return self._first[bits]


def _parse_filter(content: bytes, kind: FilterType) -> BloomFilter:
    """Parse a filter. Raises ValueError, struct.error."""
    hashes, bits = _header(content, 0)
    at, size = _HEADER.size, (bits + 7) // 8
    if kind is FilterType.SIMPLE:
        _check_size(content, at + size)
        return BloomFilter(kind, bits, hashes, (_row(content, at, bits),))
    entries, count, number = _ROWS_HEADER.unpack_from(content, at)
    at += _ROWS_HEADER.size
    if entries < 1 or count < 0 or number < 1:
        raise ValueError(f"{number} rows of {entries} keys, {count} in the last")
    _check_size(content, at + number * (_HEADER.size + size))
    rows = []
    for _ in range(number):
        if _header(content, at) != (hashes, bits):
            raise ValueError("rows differ in size")
        rows.append(_row(content, at + _HEADER.size, bits))
        at += _HEADER.size + size
    return BloomFilter(kind, bits, hashes, tuple(rows), entries, count)


def _header(content: bytes, at: int) -> tuple[int, int]:
    version, hashes, hash_type, bits = _HEADER.unpack_from(content, at)
    if version != _VERSION:
        raise ValueError(f"version is {version}")
    if hash_type != _MURMUR:
        raise ValueError(f"hash type is {hash_type}")
    if bits < 1 or not 1 <= hashes <= _HASHES_MAX:
        raise ValueError(f"{hashes} hashes among {bits} bits")
    return hashes, bits


def _check_size(content: bytes, expected_bytes: int) -> None:
    if len(content) != expected_bytes:
        raise ValueError(f"{len(content)} bytes instead of {expected_bytes}")


def _row(content: bytes, at: int, bits: int) -> Bits:
    row = np.frombuffer(content, np.uint8, count=(bits + 7) // 8, offset=at)
    if bits & 7 and row[-1] >> (bits & 7):
        raise ValueError("bits are set behind the last")
    return row


class BloomFilterBuilder:
    """A builder that gets the keys of one file as they pass; memory does not grow with them.

    The order of the keys decides, beyond the first row, which row a key is in.
    """

    @classmethod
    def of(cls, options: BloomOptions | None) -> BloomFilterBuilder | None:
        """Return a builder for a file of a table that keeps such filters, or None."""
        return None if options is None else cls(options)

    def __init__(self, options: BloomOptions) -> None:
        self._options = options
        self._bits = options.bits
        self._rows: list[Bits] = [self._empty_row()]
        self._added = 0

    def add(self, keys: Keys) -> None:
        """Add these keys to the filter. Raises InvalidInput for keys that are null, empty, or not
        text.
        """
        for chunk in text_chunks(keys):
            for number, part in self._shares(chunk):
                while len(self._rows) <= number:
                    self._rows.append(self._empty_row())
                self._rows[number] = self._with_keys(self._rows[number], part)
            self._added += len(chunk)

    def built(self) -> BloomFilter:
        """Return the filter of the keys added so far."""
        options = self._options
        is_dynamic = options.kind is FilterType.DYNAMIC_V0
        return BloomFilter(
            options.kind,
            self._bits,
            options.hashes,
            tuple(self._rows),
            entries=options.entries if is_dynamic else 0,
            count=self._added - (len(self._rows) - 1) * options.entries if is_dynamic else 0,
        )

    def footer(self) -> dict[str, str]:
        """Return the filter of the keys added so far and its type, under their footer keys."""
        built = self.built()
        return FilterText(built.to_text(), built.kind).footer()

    def _shares(self, chunk: Any) -> Iterator[tuple[int, Any]]:
        """Yield the next keys by the row that they belong to.

        Rows are filled in order. When all are full, one more key goes to the first, and from then
        on to each in turn, again from the first: Hudi's order.
        """
        entries, rows = self._options.entries, self._options.rows_max
        if rows == 1:
            yield 0, chunk
            return
        numbers = self._added + np.arange(len(chunk))
        full = rows * entries
        row_of = np.where(numbers < full, numbers // entries, (numbers - full - 1) % rows)
        row_of[numbers == full] = 0
        for row in np.unique(row_of).tolist():
            which = np.flatnonzero(row_of == row)
            is_whole = len(which) == which[-1] - which[0] + 1
            yield (
                row,
                chunk.slice(int(which[0]), len(which)) if is_whole else chunk.take(pa.array(which)),
            )

    def _with_keys(self, row: Bits, keys: Any) -> Bits:
        is_set = np.unpackbits(row, bitorder="little")
        for block in key_blocks(keys):
            for _ in range(self._options.hashes):
                is_set[block.next_places(self._bits)] = 1
        return np.packbits(is_set, bitorder="little")

    def _empty_row(self) -> Bits:
        return np.zeros((self._bits + 7) // 8, np.uint8)
