"""Bloom filters alone, in memory: made of keys, and asked for them, on one core."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from bench.drivers.serving import Job, serve
from workers.index.bloom_filter import BloomFilter, HashedKeys

_KEY_BYTES = 36
_FILE_KEYS = 100_000


class Filters:
    """Keys like UUIDs, which lie in no order."""

    def __init__(self) -> None:
        pa.set_cpu_count(1)
        self._chance = np.random.default_rng(1)

    def prepare(self, keys: int) -> None:
        self._keys, self._others = self._drawn(keys), self._drawn(keys)
        self._files = [
            BloomFilter.of_keys(self._keys[at : at + _FILE_KEYS])
            for at in range(0, keys, _FILE_KEYS)
        ]

    def make(self) -> int:
        """One filter; the length of its text."""
        return len(BloomFilter.of_keys(self._keys).to_text())

    def ask_held(self) -> int:
        """Each key, of the one file that has it."""
        starts = range(0, len(self._keys), _FILE_KEYS)
        parts = zip(self._files, starts, strict=True)
        held = [one.might_contain(self._keys[at : at + _FILE_KEYS]) for one, at in parts]
        return int(sum(np.count_nonzero(one) for one in held))

    def ask_absent(self) -> int:
        """Each of as many other keys, of every file."""
        absent_keys = HashedKeys(self._others)
        return int(sum(np.count_nonzero(absent_keys.might_be_in(one)) for one in self._files))

    def _drawn(self, count: int) -> pa.Array[Any]:
        letters = np.frombuffer(b"0123456789abcdef", np.uint8)
        drawn = letters[self._chance.integers(0, 16, (count, _KEY_BYTES))]
        offsets = np.arange(count + 1, dtype=np.int32) * _KEY_BYTES
        buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(drawn.tobytes())]
        keys: pa.Array[Any] = pa.Array.from_buffers(pa.string(), count, buffers)
        return keys


def jobs() -> dict[str, Job]:
    filters = Filters()
    return {
        "prepare": filters.prepare,
        "make": filters.make,
        "ask_held": filters.ask_held,
        "ask_absent": filters.ask_absent,
    }


if __name__ == "__main__":
    serve(jobs)
