"""Which file slices can hold rows that a filter takes: judged by partition path and bucket alone.

Nothing is read for it, and a slice that cannot be judged is kept, so whoever filters the rows
afterwards misses none. For tables that Sluice may write: there a row's columns say where it lies.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa

from workers.errors import InvalidInput
from workers.files.names import DEFAULT_PARTITION, parse_bucket_number, partition_texts
from workers.files.record_key import composite_keys, key_value_texts
from workers.index.bucket import bucket_of_composite_keys, bucket_of_keys
from workers.options.index_kind import IndexKind
from workers.options.table_options import TableConfig
from workers.table.file_group import FileSlice

_KEYS_MAX = 1_000
_KEY_VALUES = (str, bool, int, dt.date, Decimal)


@dataclass(frozen=True, slots=True)
class Condition:
    """What a filter asks of one column; all conditions of a read must hold."""

    column: str
    holds: Callable[[Any], bool]
    """Takes one value, None for null. Raises TypeError for one that it cannot compare."""
    values: tuple[Any, ...] | None = None
    """The only values that hold, where these are known."""
    compared: Any = None
    """The value that it compares with, where it is a comparison."""


def among(column: str, *values: Any) -> Condition:
    """The column holds one of `values`, null only where that is among them."""
    return Condition(column, lambda cell: cell in values, values)


def compares(column: str, comparison: Callable[[Any, Any], Any], value: Any) -> Condition:
    """A comparison with null holds for nothing."""

    def holds(cell: Any) -> bool:
        return cell is not None and bool(comparison(cell, value))

    return Condition(column, holds, compared=value)


@dataclass(frozen=True)
class SlicePruner:
    """Leaves out slices of a table that is read under `schema`, with filters that must all hold."""

    config: TableConfig
    schema: pa.Schema
    conditions: tuple[Condition, ...]

    def may_hold(self, slice_: FileSlice) -> bool:
        """False only where no row of the slice can meet the conditions."""
        return self.reason(slice_) is None

    def reason(self, slice_: FileSlice) -> str | None:
        """By what the slice is left out: "bucket" or "partition"; None where it may hold rows."""
        if self.config.merger is not None:
            return None  # It may change any column of a row, and the row stays where it is.
        if self.config.is_global and not self.config.moves_rows:
            return None  # Another engine keeps such a row where it stood, whatever its columns say.
        bucket = parse_bucket_number(slice_.file_id)
        if self._buckets is not None and bucket is not None and bucket not in self._buckets:
            return "bucket"
        return None if self._is_of_partition(slice_.partition) else "partition"

    def _is_of_partition(self, path: str) -> bool:
        config = self.config
        texts = partition_texts(
            config.partition_by, path, hive_style=config.hive_style, url_encode=config.url_encode
        )
        if texts is None:
            return True
        by_column = dict(zip(config.partition_by, texts, strict=True))
        return all(
            self._may_be(condition, by_column[condition.column])
            for condition in self.conditions
            if condition.column in by_column and condition.column not in config.time_fields
        )

    def _may_be(self, condition: Condition, text: str) -> bool:
        try:
            values = _values(text, self.schema.field(condition.column).type)
        except ValueError:
            return True
        return any(_may_hold(condition, value) for value in values)

    @cached_property
    def _buckets(self) -> frozenset[int] | None:
        """Buckets of the keys that the conditions name; None when they do not name all keys, and
        for a table without a bucket index, whose random file ids may look like bucket numbers.
        """
        if self.config.index is not IndexKind.BUCKET or not self.config.buckets:
            return None
        values_by_field = [self._key_values(field) for field in self.config.record_key]
        columns = [values for values in values_by_field if values is not None]
        if len(columns) < len(values_by_field) or math.prod(map(len, columns)) > _KEYS_MAX:
            return None
        rows = list(itertools.product(*columns))
        try:
            buckets = self._buckets_of(list(zip(*rows, strict=True)) if rows else [])
        except (pa.ArrowException, OverflowError, InvalidInput):
            return None  # No key that we would have placed.
        return buckets

    def _key_values(self, field: str) -> list[Any] | None:
        """Values that all conditions on the field let through; None where they may be any."""
        conditions = [one for one in self.conditions if one.column == field]
        named = next((one.values for one in conditions if one.values is not None), None)
        if named is None or not all(isinstance(one, _KEY_VALUES) for one in named):
            return None
        return [value for value in named if all(_may_hold(one, value) for one in conditions)]

    def _buckets_of(self, columns: Sequence[Sequence[Any]]) -> frozenset[int]:
        if not columns:
            return frozenset()
        config, fields = self.config, self.config.record_key
        texts = [
            key_value_texts(field, pa.array(values, self.schema.field(field).type))
            for field, values in zip(fields, columns, strict=True)
        ]
        if config.names_key_fields:
            keys = composite_keys(fields, texts)
            buckets = bucket_of_composite_keys(
                keys,
                texts,
                buckets=config.buckets,
                fields=fields,
                index_fields=config.index_fields,
            )
        else:
            buckets = bucket_of_keys(texts[0], buckets=config.buckets, key_field=fields[0])
        return frozenset(buckets.tolist())


def _may_hold(condition: Condition, value: Any) -> bool:
    try:
        return condition.holds(value)
    except TypeError:
        return True


def _values(text: str, kind: pa.DataType) -> list[Any]:
    """What the column holds in a partition whose path says `text`. Raises ValueError."""
    if pa.types.is_string(kind):
        return [None, "", text] if text == DEFAULT_PARTITION else [text]
    if text == DEFAULT_PARTITION:
        return [None]
    if pa.types.is_boolean(kind):
        return [["false", "true"].index(text) == 1]
    if pa.types.is_integer(kind):
        return [int(text)]
    if pa.types.is_date32(kind):
        return [dt.date.fromisoformat(text)]
    raise ValueError(kind)
