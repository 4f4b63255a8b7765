"""Decoder of batches of the consumer to rows, with separate tombstones and bad records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias, assert_never

import numpy as np
import pyarrow as pa

from workers.errors import InvalidInput
from workers.options.sink_keys import SchemaSource, ValueFormat
from workers.sink.batch import MOMENTS_END_MS, BadRecord, DecodedBatch, Headers, RawBatch, Tombstone
from workers.sink.config import SinkConfig
from workers.sink.decoding.avro_values import AvroValues
from workers.sink.decoding.chunks import Decoded, Value
from workers.sink.decoding.conversion import find_missing_values
from workers.sink.decoding.csv_values import CsvValues
from workers.sink.decoding.json_values import JsonValues
from workers.sink.decoding.new_fields import merge_new_fields
from workers.sink.decoding.registry import SchemaRegistry

Decode: TypeAlias = Callable[[RawBatch], DecodedBatch]


class Values(Protocol):
    """Decoder of the values of one format."""

    def decode(self, values: Sequence[Value]) -> Decoded:
        """Return a row for each value in order, except those in `bad`. No value is None."""
        ...


def build_decoder(
    config: SinkConfig,
    schema: pa.Schema,
    *,
    required: Collection[str] = (),
    keeps_times: bool = False,
) -> Decode:
    """Build a decoder from batches of the topic to rows of `schema`.

    Args:
        schema: the columns that records fill.
        required: columns that must not be null, such as keys. Columns that are not nullable are
            required anyway.
        keeps_times: whether the table has a column for the records' times, which must fit then.

    A bad record becomes one of the batch's bad records, without an error. Each participant needs
    its own decoder, which adapts to the topic's values. Raises InvalidInput for options that are
    not compatible.
    """
    values = _build_values(config, schema)

    def decode(batch: RawBatch) -> DecodedBatch:
        return _decode_batch(batch, values, schema, required, keeps_times)

    return decode


def _build_values(config: SinkConfig, schema: pa.Schema) -> Values:
    infers = config.schema_source is SchemaSource.INFER
    if config.value_format is ValueFormat.JSON:
        return JsonValues(schema, infers=infers)
    if config.value_format is ValueFormat.AVRO:
        if config.schema_source is not SchemaSource.REGISTRY_FILE:
            raise InvalidInput(
                "Avro values are read by the schemas of a file: hoodie.sink.schema.source="
                "registry_file and hoodie.sink.schema.file",
                source=config.schema_source,
            )
        return AvroValues(schema, SchemaRegistry(config.schema_file))
    if config.value_format is ValueFormat.CSV:
        return CsvValues(schema, config.csv_columns, infers=infers)
    assert_never(config.value_format)


def _decode_batch(
    batch: RawBatch,
    values: Values,
    schema: pa.Schema,
    required: Collection[str],
    keeps_times: bool,
) -> DecodedBatch:
    at, candidates = np.arange(len(batch), dtype=np.int64), batch.values
    bad: dict[int, str] = {}
    if keeps_times and (is_strange := batch.timestamps_ms >= MOMENTS_END_MS).any():
        bad = {
            position: _format_time_cause(batch, position) for position in at[is_strange].tolist()
        }
        at = at[~is_strange]
        candidates = [batch.values[position] for position in at.tolist()]
    present = [value for value in candidates if value is not None]
    tombstones: list[Tombstone] = []
    if len(present) < len(candidates):
        is_present = np.array([value is not None for value in candidates], np.bool_)
        tombstones = [_build_tombstone(batch, position) for position in at[~is_present].tolist()]
        at = at[is_present]
    decoded = values.decode(present)
    rows = pa.concat_tables([chunk.rows for chunk in decoded.chunks] or [schema.empty_table()])
    bad |= {int(at[position]): cause for position, cause in decoded.bad.items()}
    at = np.delete(at, list(decoded.bad))
    if lacks := find_missing_values(rows, required):
        bad |= {int(at[position]): cause for position, cause in lacks.items()}
        keeps = np.ones(len(at), np.bool_)
        keeps[list(lacks)] = False
        rows, at = rows.filter(pa.array(keeps)), at[keeps]
    assert rows.num_rows == len(at), (rows.num_rows, len(at))
    return DecodedBatch(
        rows=rows,
        offsets=batch.offsets[at],
        timestamps_ms=batch.timestamps_ms[at],
        bad=tuple(_build_bad_record(batch, position, bad[position]) for position in sorted(bad)),
        tombstones=tombstones,
        new_fields=merge_new_fields([chunk.new_fields for chunk in decoded.chunks]),
        left_out=sum(chunk.left_out for chunk in decoded.chunks),
    )


def _build_tombstone(batch: RawBatch, at: int) -> Tombstone:
    offset, timestamp = int(batch.offsets[at]), int(batch.timestamps_ms[at])
    return Tombstone(offset, _get_key(batch, at), timestamp, _get_headers(batch, at))


def _format_time_cause(batch: RawBatch, at: int) -> str:
    time_ms = int(batch.timestamps_ms[at])
    return f"the record's own time is after the year 9999: {time_ms} milliseconds since 1970"


def _build_bad_record(batch: RawBatch, at: int, cause: str) -> BadRecord:
    offset, timestamp = int(batch.offsets[at]), int(batch.timestamps_ms[at])
    headers = _get_headers(batch, at)
    return BadRecord(offset, _get_key(batch, at), batch.values[at], cause, timestamp, headers)


def _get_key(batch: RawBatch, at: int) -> bytes | None:
    if batch.keys:
        return batch.keys[at]
    return batch.records[at].key() if batch.records else None


def _get_headers(batch: RawBatch, at: int) -> Headers:
    if not batch.records:
        return ()
    try:
        return tuple(batch.records[at].headers() or ())
    except (UnicodeDecodeError, SystemError):
        # The client cannot return names that are not text; the dead letter has no headers then.
        return ()
