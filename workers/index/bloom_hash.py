"""Positions of record keys in Hudi's bloom filters (format page 4.5), some thousand keys at a time.

Murmur2, seeded with its own former result as often as a filter has hashes. The words of a key do
not depend on the seed, so they are mixed once; and a block is small enough that all of its passes
find it in the processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workers.errors import InvalidInput
from workers.files.key_bytes import bytes_and_offsets, text_chunks

Places = npt.NDArray[np.intp]
Rows = npt.NDArray[np.intp]
_Words = npt.NDArray[np.uint32]

_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)
_BLOCK_KEYS = 16_384
_BLOCK_WORDS = 1 << 18
"""Of long keys fewer make a block."""


class KeyBlock:
    """Some keys, shorter ones first, with the state of their hashes."""

    def __init__(self, rows: Rows, words: _Words, lengths: _Words, tails: _Words) -> None:
        """Create the block; `words` are mixed, a row of them for each place in a key; `tails`
        follow them.
        """
        self.rows = rows
        """Which of the given keys they are."""
        self._lengths = lengths
        self._tails = tails
        self._hashes = np.zeros(len(rows), np.uint32)
        """The former hash: the seed of the next."""
        self._spare, self._size = np.empty_like(self._hashes), np.empty_like(self._hashes)
        self._places = np.empty(len(rows), np.intp)
        begins = np.searchsorted(lengths >> 2, np.arange(len(words)), side="right").tolist()
        self._steps = [(self._hashes[begin:], words[at, begin:]) for at, begin in enumerate(begins)]
        has_tail = (lengths & 3) > 0
        self._factors = np.where(has_tail, _M, np.uint32(1)) if has_tail.any() else None

    def next_places(self, bits: int) -> Places:
        """Return the position of the next hash of each key among this number of bits; overwritten
        by the next call.
        """
        hashes, spare = self._hashes, self._spare
        hashes ^= self._lengths
        for part, words in self._steps:
            np.multiply(part, _M, part)
            np.bitwise_xor(part, words, part)
        if self._factors is not None:
            hashes ^= self._tails
            hashes *= self._factors
        np.right_shift(hashes, np.uint32(13), spare)
        hashes ^= spare
        hashes *= _M
        np.right_shift(hashes, np.uint32(15), spare)
        hashes ^= spare
        return self._among(np.uint32(bits))

    def _among(self, bits: np.uint32) -> Places:
        """Return Java's `abs(hash % bits)` of signed numbers. NumPy divides by one number in
        registers, but takes no remainder there.
        """
        size, spare = self._size, self._spare
        np.abs(self._hashes.view(np.int32), size.view(np.int32))
        np.floor_divide(size, bits, spare)
        spare *= bits
        size -= spare
        self._places[:] = size
        return self._places


def key_blocks(keys: pa.Array[Any] | pa.ChunkedArray[Any]) -> Iterator[KeyBlock]:
    """Yield blocks that contain each key once.

    Raises InvalidInput for keys that are null, empty, or not text.
    """
    first = 0
    for chunk in text_chunks(keys):
        yield from _blocks_of_chunk(chunk, first)
        first += len(chunk)


def _blocks_of_chunk(chunk: Any, first: int) -> Iterator[KeyBlock]:
    content, offsets = bytes_and_offsets(chunk)
    lengths = np.diff(offsets)
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest == 0:
        raise InvalidInput("record key is empty", row=first + int(np.argmin(lengths)))
    rows = np.arange(len(lengths), dtype=np.intp)
    if shortest < longest:
        # Small numbers are sorted in linear time.
        small = lengths.astype(np.uint16) if longest < 1 << 16 else lengths
        rows = np.argsort(small, kind="stable")
        ordered: Any = chunk.take(pa.array(rows))
        content, offsets = bytes_and_offsets(ordered)
        lengths = np.diff(offsets)
    begin = 0
    while begin < len(rows):
        end = min(begin + _BLOCK_KEYS, len(rows))
        most = max(1, _BLOCK_WORDS * 4 // int(lengths[end - 1]))
        end = min(end, begin + most)
        yield _block(content, offsets[begin : end + 1], first + rows[begin:end])
        begin = end


def _block(content: npt.NDArray[Any], offsets: npt.NDArray[np.int64], rows: Rows) -> KeyBlock:
    lengths = np.diff(offsets)
    words = np.zeros((int(lengths[-1]) >> 2, len(rows)), np.uint32)
    tails = np.zeros(len(rows), np.uint32)
    begins = np.flatnonzero(np.diff(lengths, prepend=-1))
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(rows)], strict=True):
        length, at = int(lengths[begin]), int(offsets[begin])
        size = (end - begin) * length
        alike = content[at : at + size].reshape(end - begin, length)
        whole = length >> 2
        words[:whole, begin:end] = _extract_words(alike, whole).T
        tails[begin:end] = _extract_tails(alike)
    words *= _M
    words ^= words >> _R
    words *= _M
    return KeyBlock(rows, words, lengths.astype(np.uint32), tails)


def _extract_words(alike: npt.NDArray[Any], whole: int) -> npt.NDArray[Any]:
    """Return the whole words of keys of one length, wherever these begin."""
    shape, strides = (len(alike), whole), (alike.strides[0], 4)
    return np.ndarray(shape, "<u4", buffer=alike, strides=strides)


def _extract_tails(alike: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the bytes behind the last whole word, as signed bytes from the end, as in Java."""
    length = alike.shape[1]
    tails = np.zeros(len(alike), np.int32)
    for place in range(length & 3):
        tails ^= alike[:, length - 1 - place].view(np.int8).astype(np.int32) << (8 * place)
    return tails.view(np.uint32)
