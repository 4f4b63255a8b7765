"""Limits for the memory of large bodies that are still arriving: for all together, and for each
holder, so that a client that promises a lot and sends slowly leaves memory for the others.
"""

from __future__ import annotations

from collections import Counter

BYTES_MAX = 256 << 20
HOLDER_BYTES_MAX = 64 << 20
"""The limit for one table. A client's own requests are some kilobytes each."""


class BodyBudget:
    """Counts the bytes that each holder reserved. Not thread-safe: only the event loop has it."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    @property
    def bytes(self) -> int:
        """Bytes that all holders together have reserved now."""
        return self._held.total()

    def reserve(self, holder: str, length: int) -> str | None:
        """Reserve bytes until `release`. Returns None, or why they are not available."""
        if self._held[holder] + length > HOLDER_BYTES_MAX:
            return "too many large requests of this table at once"
        if self.bytes + length > BYTES_MAX:
            return "too many large requests at once"
        self._held[holder] += length
        return None

    def release(self, holder: str, length: int) -> None:
        """Release what `reserve` reserved: the same holder and length, once."""
        self._held[holder] -= length
        if not self._held[holder]:
            del self._held[holder]
