"""Decode many values at once, and find the bad ones by halving."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

Value = bytes


class Undecodable(Exception):
    """At least one of these values cannot be decoded; the text has the first cause."""


@dataclass(slots=True)
class Chunk:
    """Rows of consecutive values."""

    rows: pa.Table
    new_fields: tuple[pa.Field, ...] = ()  # type: ignore[type-arg]
    left_out: int = 0


@dataclass(slots=True)
class Decoded:
    """Chunks in the order of the values. A value is a row of a chunk, or has a cause in `bad`."""

    chunks: list[Chunk] = field(default_factory=list)
    bad: dict[int, str] = field(default_factory=dict)
    """Position among the values -> cause."""


def decode_by_halving(
    values: Sequence[Value], decode: Callable[[Sequence[Value]], Chunk]
) -> Decoded:
    """Decode the values. `decode` returns one row per value or raises Undecodable; then both halves
    are decoded separately. Chunks have the order of the values.

    One bad value among n costs about two more passes over n values.
    """
    decoded = Decoded()
    left = [(0, len(values))] if values else []
    while left:
        start, count = left.pop()
        part = values if count == len(values) else values[start : start + count]
        try:
            decoded.chunks.append(decode(part))
        except Undecodable as undecodable:
            if count == 1:
                decoded.bad[start] = str(undecodable)
                continue
            half = count // 2
            left += [(start + half, count - half), (start, half)]
    return decoded
