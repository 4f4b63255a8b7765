"""The least and the greatest record key of a base file, from its footer.

Engines do not agree on the order of text: Hudi's Avro writers and its lookups go by UTF-16 units,
its row writers by UTF-8 bytes. The two differ where one key has a character beyond U+FFFF and
another one of U+E000 to U+FFFF. So we write a range only where it holds in both orders, and a range
that we read excludes a key only where it does so in both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workers.files.key_bytes import bytes_and_offsets, text_chunks

# Lead bytes of U+E000 to U+FFFF become greater than those of everything beyond.
_AS_UTF16 = bytes.maketrans(b"\xee\xef", b"\xfe\xff")
_BEYOND_UTF16_UNITS = 0xF0
"""Lead bytes from here on: characters that UTF-16 spells with two units."""

Keys: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"


@dataclass(frozen=True, slots=True)
class KeyRange:
    """A range of keys. Both ends are inclusive, in the order of the writer of the file."""

    least: str
    greatest: str

    def can_contain(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Return False for each key that is certainly outside. Raises InvalidInput for null
        keys.
        """
        chunks = text_chunks(keys)
        return np.concatenate([np.empty(0, np.bool_), *map(self._can_contain, chunks)])

    def overlaps(self, other: KeyRange) -> bool:
        """Return True if a key can be in both, in either of the two orders."""
        mine, others = (self.least, self.greatest), (other.least, other.greatest)
        return any(
            order(mine[0]) <= order(others[1]) and order(others[0]) <= order(mine[1])
            for order in (str.encode, _utf16_text)
        )

    def _can_contain(self, chunk: Any) -> npt.NDArray[np.bool_]:
        may_hold = _between(chunk, self.least, self.greatest)
        content, _ = bytes_and_offsets(chunk)
        bounds = f"{self.least}{self.greatest}".encode()
        if _has_pairs(content) or _has_pairs(np.frombuffer(bounds, np.uint8)):
            least, greatest = _utf16_text(self.least), _utf16_text(self.greatest)
            may_hold |= _between(_utf16_texts(chunk), least, greatest)
        return may_hold


def can_overlap(mine: KeyRange | None, theirs: KeyRange | None) -> bool:
    """Return True if a key can be in both; a file without a range may contain any key."""
    return mine is None or theirs is None or mine.overlaps(theirs)


@dataclass(slots=True)
class KeyBounds:
    """A collector of the least and the greatest key of a file."""

    _by_bytes: KeyRange | None = field(default=None, init=False)
    _by_units: tuple[bytes, bytes] | None = field(default=None, init=False)

    def add(self, keys: Keys) -> None:
        """Widen the bounds by these keys. Raises InvalidInput for null keys."""
        for chunk in text_chunks(keys):
            here: Any = pc.min_max(chunk).as_py()
            least, greatest = here["min"], here["max"]
            content, _ = bytes_and_offsets(chunk)
            self._add_units(chunk if _has_pairs(content) else pa.array([least, greatest]))
            if (former := self._by_bytes) is not None:
                least, greatest = min(least, former.least), max(greatest, former.greatest)
            self._by_bytes = KeyRange(least, greatest)

    def _add_units(self, chunk: Any) -> None:
        here: Any = pc.min_max(_utf16_texts(chunk)).as_py()
        least, greatest = here["min"], here["max"]
        if self._by_units is not None:
            least, greatest = min(least, self._by_units[0]), max(greatest, self._by_units[1])
        self._by_units = (least, greatest)

    @property
    def range(self) -> KeyRange | None:
        """Return the range of the keys so far; None without keys, and where the two orders
        differ.
        """
        key_range = self._by_bytes
        if key_range is None or self._by_units != (
            _utf16_text(key_range.least),
            _utf16_text(key_range.greatest),
        ):
            return None
        return key_range


def _between(keys: Any, least: str | bytes, greatest: str | bytes) -> npt.NDArray[np.bool_]:
    is_between: Any = pc.and_(
        pc.greater_equal(keys, pa.scalar(least, keys.type)),
        pc.less_equal(keys, pa.scalar(greatest, keys.type)),
    )
    mask: npt.NDArray[np.bool_] = is_between.to_numpy(zero_copy_only=False)
    return mask.copy()


def _has_pairs(content: npt.NDArray[Any]) -> bool:
    return bool(content.size and content.max() >= _BEYOND_UTF16_UNITS)


def _utf16_text(text: str) -> bytes:
    """Return bytes that are ordered as the text is by its UTF-16 units."""
    return text.encode().translate(_AS_UTF16)


def _utf16_texts(chunk: Any) -> Any:
    content, offsets = bytes_and_offsets(chunk)
    ordered = pa.py_buffer(content.tobytes().translate(_AS_UTF16))
    buffers = [None, pa.py_buffer(offsets.tobytes()), ordered]
    return pa.Array.from_buffers(pa.large_binary(), len(chunk), buffers)
