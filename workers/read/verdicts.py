"""Which rows of base file and logs live, remembered for the next read of the same slice: its files
never change, so neither does the answer. 125 KB for a million base rows, and four bytes for each
row of the logs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from workers.merge.versions import Mask, Positions
from workers.table.file_group import FileSlice

_BYTES_MAX: Final = 64 << 20
"""Of all verdicts of one table."""

VerdictKey = tuple[FileSlice, str | None, str]
"""The slice, what its rows are ordered by, and as which type."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the logs of a slice come to."""

    dead: dict[int, tuple[int, bytes]]
    """Per row group of the base file: its rows, and a bit for each that gives way."""
    kept: bytes
    """Positions of the versions of the logs that live, deletes among them."""

    @classmethod
    def of(cls, dead: dict[int, Mask], kept: Positions) -> Verdict:
        """The verdict in few bytes."""
        packed = {number: (len(mask), np.packbits(mask).tobytes()) for number, mask in dead.items()}
        return cls(packed, kept.astype(np.int32).tobytes())

    def dead_in(self, numbers: Sequence[int]) -> Mask:
        """Which rows of these row groups give way."""
        masks = []
        for number in numbers:
            count, packed = self.dead[number]
            bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=count)
            masks.append(bits.view(np.bool_))
        return np.concatenate(masks)

    def kept_versions(self) -> Positions:
        """Positions of those that live."""
        return np.frombuffer(self.kept, np.int32).astype(np.int64)

    @property
    def size(self) -> int:
        """Bytes, about."""
        return len(self.kept) + sum(len(packed) for _, packed in self.dead.values())


@dataclass(slots=True)
class Verdicts:
    """Those used last. Thread-safe."""

    _kept: OrderedDict[VerdictKey, Verdict] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, key: VerdictKey) -> Verdict | None:
        """The verdict, where it is known."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def keep(self, key: VerdictKey, verdict: Verdict) -> None:
        """Remembers it, and forgets what was not used for longest when there are too many."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = verdict
                self._bytes += verdict.size
            while self._bytes > _BYTES_MAX:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= oldest.size

    def forget(self) -> None:
        """All of them: what is read next is judged anew."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0
