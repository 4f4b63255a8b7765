"""The simple bucket index: record keys to buckets, exactly as Hudi does, a column at a time.

`(List.hashCode(values) & 0x7fffffff) % buckets` with Java's String.hashCode over UTF-16 units
(format page 4.7). No Python object is made per key, except for those that Hudi's parser of
composite keys reads in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.files.key_bytes import bytes_and_offsets, text_chunks

_MULTIPLIER = np.uint32(31)
_POSITIVE = np.uint32(0x7FFFFFFF)
_MASK = 0xFFFFFFFF
_COMMA, _COLON = 0x2C, 0x3A
_LENGTHS_MAX = 48

Buckets = npt.NDArray[np.int32]
_Hashes = npt.NDArray[np.uint32]


def java_string_hash(text: str) -> int:
    """Return Java's String.hashCode, signed."""
    units = text.encode("utf-16-le", "surrogatepass")
    hashed = 0
    for at in range(0, len(units), 2):
        hashed = (31 * hashed + int.from_bytes(units[at : at + 2], "little")) & _MASK
    return hashed - (1 << 32) if hashed >> 31 else hashed


def bucket_of_keys(
    keys: pa.Array[Any] | pa.ChunkedArray[Any],
    *,
    buckets: int,
    index_fields: Sequence[str] | None = None,
    key_field: str | None = None,
) -> Buckets:
    """Return the bucket of each record key.

    `index_fields` names the hashed fields of a key that has several; None: it is one plain value,
    that of `key_field`. Hudi parses such a key too if it contains both ',' and ':'.

    Raises InvalidInput for a null key, for keys that are not text, and for a plain key on which
    Hudi's parser never returns, or that contains both characters without a `key_field`.
    """
    _check_buckets(buckets)
    hashed = [_chunk_hashes(chunk, index_fields, key_field) for chunk in text_chunks(keys)]
    if not hashed:
        return np.empty(0, np.int32)
    return ((np.concatenate(hashed) & _POSITIVE) % np.uint32(buckets)).astype(np.int32)


def bucket_of_composite_keys(
    keys: pa.Array[Any],
    texts: Sequence[pa.Array[Any]],
    *,
    buckets: int,
    fields: Sequence[str],
    index_fields: Sequence[str],
) -> Buckets:
    """Return the bucket of each `field:value,...` key, hashed from its fields' texts without
    parsing it.

    `texts` are those of `fields`, in their order, null where a value is null. Hashed are those of
    `index_fields`, in the order in which the key has them, ignoring their own.

    Raises InvalidInput for less than one bucket.
    """
    _check_buckets(buckets)
    if len(keys) == 0:
        return np.empty(0, np.int32)
    if len(texts) == 1:
        hashes = _MULTIPLIER + _text_hashes(keys)
        odd = _positions(texts[0], ",")
    else:
        hashes = np.ones(len(keys), np.uint32)
        for field, values in zip(fields, texts, strict=True):
            if field in index_fields:
                hashes = _MULTIPLIER * hashes + _text_hashes(pc.fill_null(values, pa.scalar("")))
        # Hudi's parser ends a value at a ',' that has a ':' behind it.
        odd = np.unique(np.concatenate([_positions(values, ",", ":") for values in texts]))
    if len(odd):
        parsed: Any = keys.take(pa.array(odd, pa.int64())).to_pylist()
        hashes[odd] = _composite_hashes(parsed, index_fields)
    return ((hashes & _POSITIVE) % np.uint32(buckets)).astype(np.int32)


def _check_buckets(buckets: int) -> None:
    """Check the number of buckets. It is 0 for a table that is not bucketed, which NumPy would
    divide by with only a warning.
    """
    if buckets < 1:
        raise InvalidInput("bucket count must be positive", buckets=buckets)


def endless_keys(
    keys: pa.Array[Any],
    texts: Sequence[pa.Array[Any]],
    *,
    fields: Sequence[str],
    index_fields: Sequence[str],
) -> npt.NDArray[np.int64]:
    """Return the positions of `field:value,...` keys on which Hudi's parser never returns,
    ascending.

    The last part of such a key is a ':' in a value that Hudi does not consider hashed: the last
    field's, or text that resembles a name within a value.
    """
    suspects = [_positions(field_texts, ",", ":") for field_texts in texts]
    if fields[-1] not in index_fields:
        suspects.append(_positions(texts[-1], ":"))
    at = np.unique(np.concatenate(suspects))
    hashed = frozenset(index_fields)
    some: Any = keys.take(pa.array(at, pa.int64())).to_pylist()
    return at[np.array([_is_endless(key, hashed) for key in some], np.bool_)]


def shares_of_keys(keys: pa.Array[Any], shares: int) -> Buckets:
    """Return numbers below `shares` for keys of any text, equal for equal keys."""
    if len(keys) == 0:
        return np.empty(0, np.int32)
    return (_text_hashes(keys) % np.uint32(shares)).astype(np.int32)


def _positions(texts: Any, *characters: str) -> npt.NDArray[np.int64]:
    """Return the positions of texts that contain all of the characters."""
    held = np.ones(len(texts), np.bool_)
    for character in characters:
        has_character: Any = pc.fill_null(pc.match_substring(texts, character), False)
        held &= has_character.to_numpy(zero_copy_only=False)
    return np.flatnonzero(held)


def _text_hashes(chunk: Any) -> _Hashes:
    units, offsets = bytes_and_offsets(chunk)
    if units.size and units.max() >= 0x80:
        units, offsets = _utf16(units, offsets)
    return _string_hashes(units, offsets)


def _chunk_hashes(chunk: Any, index_fields: Sequence[str] | None, key_field: str | None) -> _Hashes:
    if index_fields is not None:
        return _composite_hashes(chunk.to_pylist(), index_fields)
    # List.hashCode of one element starts at 1: 31 * 1 + hash.
    hashes = _MULTIPLIER + _text_hashes(chunk)
    for row in _parse_rows(*bytes_and_offsets(chunk)):
        hashes[row] = _list_hash(_plain_values(chunk[int(row)].as_py(), key_field))
    return hashes


def _parse_rows(content: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the rows whose key contains both ',' and ':'."""
    commas = np.flatnonzero(content == _COMMA)
    colons = np.flatnonzero(content == _COLON) if commas.size else commas
    return np.intersect1d(_find_rows(commas, offsets), _find_rows(colons, offsets))


def _plain_values(key: str, field: str | None) -> list[str | None]:
    """Return the values that Hudi's parser finds in a plain key that resembles `name:value,...`:
    the values under the field's own name, or the whole key. Raises InvalidInput if it never
    returns.
    """
    if field is None or _is_endless(key, frozenset((field,))):
        raise InvalidInput(
            "record key holds ',' and ':' so that Hudi never ends parsing it", key=key
        )
    return _key_values(key, frozenset((field,)))


def _is_endless(key: str, fields: frozenset[str]) -> bool:
    """Return True if Hudi's parser never returns. Behind a name that is not hashed it searches for
    a ',' between that name's ':' and a later one. If there are later ones and none has a ',' before
    it, it begins again, forever.
    """
    at = 0
    while (colon := key.find(":", at)) >= 0:
        end = _value_end(key, colon)
        if end == len(key):
            return key[at:colon] not in fields and key.find(":", colon + 1) >= 0
        at = end + 1
    return False


def _find_rows(positions: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    return np.searchsorted(offsets, positions, side="right") - 1


def _utf16(
    content: npt.NDArray[Any], offsets: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    units = np.frombuffer(content.tobytes().decode("utf-8").encode("utf-16-le"), np.uint16)
    # A character begins at every byte that continues none; those of four bytes need two units.
    produced = ((content & 0xC0) != 0x80).astype(np.int64) + (content >= 0xF0)
    before = np.concatenate((np.zeros(1, np.int64), np.cumsum(produced)))
    return units, before[offsets]


def _string_hashes(units: npt.NDArray[Any], offsets: npt.NDArray[np.int64]) -> _Hashes:
    lengths = np.diff(offsets)
    starts = offsets[:-1]
    longest = int(lengths.max())
    if longest == int(lengths.min()):
        return _hash_fixed_width(units.reshape(len(lengths), longest))
    present = np.flatnonzero(np.bincount(lengths)) if longest < 1 << 20 else np.unique(lengths)
    if len(present) > _LENGTHS_MAX:
        return _hash_ragged(units, starts, lengths)
    hashes: _Hashes = np.zeros(len(lengths), np.uint32)
    for length in present:
        rows = np.flatnonzero(lengths == length)
        hashes[rows] = _hash_gathered(units, starts[rows], int(length))
    return hashes


def _hash_fixed_width(matrix: npt.NDArray[Any]) -> _Hashes:
    hashes: _Hashes = np.zeros(matrix.shape[0], np.uint32)
    for column in range(matrix.shape[1]):
        hashes *= _MULTIPLIER
        hashes += matrix[:, column]
    return hashes


def _hash_gathered(units: npt.NDArray[Any], starts: npt.NDArray[np.int64], length: int) -> _Hashes:
    hashes: _Hashes = np.zeros(len(starts), np.uint32)
    for position in range(length):
        hashes *= _MULTIPLIER
        hashes += units[starts + position]
    return hashes


def _hash_ragged(
    units: npt.NDArray[Any], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]
) -> _Hashes:
    """Hash texts of many lengths: longest first, so that the unfinished keys are always a
    prefix.
    """
    order = np.argsort(-lengths, kind="stable")
    sorted_starts, sorted_lengths = starts[order], lengths[order]
    hashes: _Hashes = np.zeros(len(lengths), np.uint32)
    # going_on[p]: how many keys are longer than p.
    going_on = len(lengths) - np.searchsorted(
        sorted_lengths[::-1], np.arange(int(sorted_lengths[0])), side="right"
    )
    for position, count in enumerate(going_on.tolist()):
        hashes[:count] *= _MULTIPLIER
        hashes[:count] += units[sorted_starts[:count] + position]
    back: _Hashes = np.empty_like(hashes)
    back[order] = hashes
    return back


def _composite_hashes(keys: list[str], index_fields: Sequence[str]) -> _Hashes:
    fields = frozenset(index_fields)
    return np.array([_list_hash(_key_values(key, fields)) for key in keys], np.uint32)


def _list_hash(values: list[str | None]) -> int:
    hashed = 1
    for value in values:
        hashed = (31 * hashed + (0 if value is None else java_string_hash(value))) & _MASK
    return hashed


def _key_values(key: str, fields: frozenset[str]) -> list[str | None]:
    """Return the values of `name:value,name:value` whose name is in `fields`; the whole key without
    any.

    A value ends at the last ',' before the next ':', so that values may contain either character.
    """
    if "," not in key or ":" not in key:
        return [key]
    values: list[str | None] = []
    at = 0
    while (colon := key.find(":", at)) >= 0:
        end = _value_end(key, colon)
        if key[at:colon] in fields:
            values.append(_special(key[colon + 1 : end]))
        at = end + 1
    return values or [key]


def _value_end(key: str, colon: int) -> int:
    following = key.find(":", colon + 1)
    while following >= 0:
        comma = key.rfind(",", colon + 1, following)
        if comma >= 0:
            return comma
        following = key.find(":", following + 1)
    return len(key)


def _special(value: str) -> str | None:
    return {"__null__": None, "__empty__": ""}.get(value, value)
