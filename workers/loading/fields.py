"""Places of the fields of a block without quotes, found by numpy. They show what Arrow's typed
decoding does not report of the texts, such as leading zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workers.loading.text import TextBlock

_Places = npt.NDArray[Any]
_LF, _CR, _TAB, _BLANK, _PLUS, _MINUS, _POINT, _ZERO = b"\n\r\t +-.0"
_LONG_CHARS_MAX: Final = 64


class Fields:
    """The fields of a block, row by row. `find_fields` makes it."""

    def __init__(self, block: TextBlock, ends: _Places) -> None:
        size = len(block.data)
        self._bytes = np.zeros(size + _LONG_CHARS_MAX + 1, np.uint8)
        """With a margin, so that no place near the end is outside."""
        self._bytes[:size] = np.frombuffer(block.data, np.uint8)
        # By column, each of which is one piece of memory.
        self._ends = np.ascontiguousarray(ends.T, dtype=np.int32)
        self._starts = np.empty_like(self._ends)
        self._starts[1:] = self._ends[:-1] + 1
        self._starts[0, 0] = 0
        self._starts[0, 1:] = self._ends[-1, :-1] + 1
        if b"\r" in block.data:
            last = self._ends[-1]
            last -= self._bytes[np.maximum(last - 1, 0)] == _CR

    @property
    def row_count(self) -> int:
        """Number of records."""
        return int(self._ends.shape[1])

    @cached_property
    def _lengths(self) -> _Places:
        return np.asarray(self._ends - self._starts)

    def lengths(self, at: int) -> _Places:
        """Return the bytes of each field of a column."""
        return np.asarray(self._lengths[at])

    def has_odd_whole(self, at: int) -> bool:
        """Check for a leading zero, a blank at the front, or a zero with a minus."""
        first, second, _, _ = self._heads(at)
        is_blank = (first == _BLANK) | (first == _TAB)
        return bool(np.any((first == _ZERO) | is_blank | ((first == _MINUS) & (second == _ZERO))))

    def has_odd_number(self, at: int) -> bool:
        """Check for what `has_odd_whole` does, but for `0.5` and `-0.5`, and for a plus."""
        first, second, third, lengths = self._heads(at)
        zeros = (first == _ZERO) & (second != _POINT)
        minus = (first == _MINUS) & (second == _ZERO) & (lengths > 2) & (third != _POINT)
        is_blank = (first == _BLANK) | (first == _TAB) | (first == _PLUS)
        return bool(np.any(zeros | minus | is_blank))

    def _heads(self, at: int) -> tuple[_Places, _Places, _Places, _Places]:
        """First, second and third byte, and the length, of fields that may be odd."""
        starts, lengths = self._starts[at], self._lengths[at]
        low = np.flatnonzero((self._bytes[starts] <= _ZERO) & (lengths > 1))
        starts = starts[low]
        first, second, third = (self._bytes[starts + more] for more in range(3))
        return first, second, third, lengths[low]

    def long_texts(self, at: int, chars: int) -> list[str] | None:
        """Return the distinct texts of at least so many bytes; None if one of them is too long to
        be a number.
        """
        lengths = self._lengths[at]
        rows = np.flatnonzero(lengths >= chars)
        if not len(rows):
            return []
        lengths = lengths[rows]
        longest = int(lengths.max())
        if longest > _LONG_CHARS_MAX:
            return None
        # Every window of the bytes, of which those that begin with a field are taken.
        windows = np.lib.stride_tricks.sliding_window_view(self._bytes, longest)
        letters = windows[self._starts[at][rows]]
        letters[np.arange(longest) >= lengths[:, None]] = 0
        held: Any = letters
        stored: Any = pa.py_buffer(held)
        texts = pa.Array.from_buffers(pa.binary(longest), len(rows), [None, stored])
        distinct: list[Any] = texts.unique().to_pylist()
        return [text.rstrip(b"\0").decode() for text in distinct]

    def count_word(self, word: str, columns: Iterable[int]) -> int:
        """Return how many fields of these columns are this word."""
        letters = word.encode()
        count = 0
        for at in columns:
            starts = self._starts[at][self._lengths[at] == len(letters)]
            for more, letter in enumerate(letters):
                starts = starts[self._bytes[starts + more] == letter]
            count += len(starts)
        return count


def can_have_fields(block: TextBlock) -> bool:
    """Return whether `find_fields` takes a block, unless its lines are blank or ragged."""
    data = block.data
    if block.has_quotes or block.dialect.escape or not data or b"\0" in data:
        return False
    return b"\r" not in data or data.count(b"\r") == data.count(b"\r\n")


def find_fields(block: TextBlock, width: int) -> Fields | None:
    """Return the fields of a block for which `can_have_fields` holds; None if lines are blank or
    ragged.
    """
    data, dialect = block.data, block.dialect
    signs = np.frombuffer(data, np.uint8)
    places = np.flatnonzero((signs == ord(dialect.delimiter)) | (signs == _LF))
    if data[-1] != _LF:
        places = np.append(places, len(data))
    if len(places) % width:
        return None
    ends = places.reshape(-1, width)
    lines = ends[:-1, -1] if data[-1] != _LF else ends[:, -1]
    return Fields(block, ends) if bool(np.all(signs[lines] == _LF)) else None


def count_words(
    fields: Fields, data: bytes, words: Sequence[str], columns: Sequence[int]
) -> dict[str, int]:
    """Return how often each word that occurs is a whole field of these columns."""
    counts = {
        word: fields.count_word(word, columns)
        for word in dict.fromkeys(words)
        if word and word.encode() in data
    }
    return {word: count for word, count in counts.items() if count}
