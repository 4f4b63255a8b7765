"""Decode the keys of tombstones by the sink's key format, to find the rows that they delete.

A key that is decoded wrongly names a row that does not exist, and the delete is lost silently. So a
key that does not fit the format becomes a dead letter. Without a configured format, a key is
decoded only if it is clearly JSON, Avro or plain text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workers.errors import InvalidInput
from workers.options.sink_keys import KeyFormat, SchemaSource
from workers.schema.bad_rows import find_failing_rows
from workers.sink.batch import Offsets
from workers.sink.config import SinkConfig
from workers.sink.decoding.avro_values import AvroValues
from workers.sink.decoding.conversion import find_missing_values
from workers.sink.decoding.json_shape import DEPTH_MAX, measure_depth
from workers.sink.decoding.registry import SchemaRegistry

_FRAMED = b"\x00"
"""First byte of values from clients of a schema registry. No text begins with it."""
_BYTE_ORDER_MARK = "\ufeff"


@dataclass(slots=True)
class DecodedKeys:
    """Decoded key fields, as columns with the table's types."""

    columns: pa.Table
    positions: Offsets
    """Position of each decoded key."""
    bad: dict[int, str] = field(default_factory=dict)
    """Position of each other key -> cause."""


class TombstoneKeys:
    """Decoder of keys in the sink's key format. Without a format, a key that begins with a zero
    byte is decoded as Avro.
    """

    def __init__(self, config: SinkConfig, schema: pa.Schema) -> None:
        """`schema` has the fields that find a row. Raises InvalidInput for a damaged file."""
        self._format = config.key_format
        self._schema = schema
        self._avro: AvroValues | None = None
        if config.schema_source is SchemaSource.REGISTRY_FILE:
            self._avro = AvroValues(schema, SchemaRegistry(config.schema_file), takes_plain=True)

    def read(self, keys: Sequence[bytes | None]) -> DecodedKeys:
        """Decode the keys. The result has the valid keys in order, and a cause for each other.

        Raises InvalidInput if a changed schema file is damaged or missing.
        """
        framed = [at for at, key in enumerate(keys) if key is not None and self._is_framed(key)]
        is_framed = set(framed)
        texts = [at for at in range(len(keys)) if at not in is_framed]
        parts = [
            self._read_texts([keys[at] for at in texts], np.array(texts, np.int64)),
            self._read_records([keys[at] or b"" for at in framed], np.array(framed, np.int64)),
        ]
        columns = pa.concat_tables([part.columns for part in parts])
        positions = np.concatenate([part.positions for part in parts])
        order = np.argsort(positions, kind="stable")
        bad = {at: why for part in parts for at, why in part.bad.items()}
        return DecodedKeys(columns.take(order), positions[order], bad)

    def _is_framed(self, key: bytes) -> bool:
        if self._format is KeyFormat.AUTO:
            return key.startswith(_FRAMED)
        return self._format is KeyFormat.AVRO

    def _read_records(self, keys: Sequence[bytes], positions: Offsets) -> DecodedKeys:
        if not keys or self._avro is None:
            cause = "the tombstone's key begins with a schema id, and the sink has no schema file"
            bad = dict.fromkeys(positions.tolist(), cause)
            return DecodedKeys(self._schema.empty_table(), positions[:0], bad)
        decoded = self._avro.decode(keys)
        rows = pa.concat_tables(
            [chunk.rows for chunk in decoded.chunks] or [self._schema.empty_table()]
        )
        bad = {int(positions[at]): f"the tombstone's key: {why}" for at, why in decoded.bad.items()}
        decoded_positions = np.delete(positions, list(decoded.bad))
        lacks = find_missing_values(rows, self._schema.names)
        bad |= {
            int(decoded_positions[at]): f"the tombstone's key: {why}" for at, why in lacks.items()
        }
        good = np.delete(np.arange(len(decoded_positions)), list(lacks))
        return DecodedKeys(rows.take(good), decoded_positions[good], bad)

    def _read_texts(self, keys: Sequence[bytes | None], positions: Offsets) -> DecodedKeys:
        values: list[dict[str, str]] = []
        good: list[int] = []
        bad: dict[int, str] = {}
        for at, key in zip(positions.tolist(), keys, strict=True):
            try:
                values.append(_parse_key(key, self._schema.names, self._format))
                good.append(at)
            except InvalidInput as error:
                bad[at] = str(error)
        columns: list[Any] = []
        wrong: dict[int, str] = {}
        for key_field in self._schema:
            texts = pa.array([value[key_field.name] for value in values], pa.string())
            column, failed = _cast(texts, key_field.type)
            columns.append(column)
            cause = f"the tombstone's key has no fit value: column={key_field.name}"
            wrong |= dict.fromkeys(failed, cause)
        bad |= {good[at]: why for at, why in wrong.items()}
        fitting = np.delete(np.arange(len(good)), list(wrong))
        rows = pa.table(columns, schema=self._schema).take(fitting)
        return DecodedKeys(rows, np.array(good, np.int64)[fitting], bad)


def _parse_key(key: bytes | None, fields: Sequence[str], key_format: KeyFormat) -> dict[str, str]:
    """Return the text of each field. Raises InvalidInput."""
    if key is None:
        raise InvalidInput("the tombstone has no key, so it names no row")
    try:
        text = key.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("the tombstone's key is not text") from error
    begins = text.lstrip()[:1]
    if key_format is KeyFormat.JSON or (key_format is KeyFormat.AUTO and begins in ("{", '"')):
        body = _parse_json(key)
        if isinstance(body, dict):
            return {name: _format_value(body, name) for name in fields}
        return {
            _get_single_field(fields, "a single value"): _format_value({fields[0]: body}, fields[0])
        }
    if key_format is KeyFormat.AUTO and (
        text.startswith(_BYTE_ORDER_MARK) or _has_control_characters(text)
    ):
        raise InvalidInput("the tombstone's key has no text that can be read")
    return {_get_single_field(fields, "plain text"): text}


def _get_single_field(fields: Sequence[str], what: str) -> str:
    if len(fields) > 1:
        raise InvalidInput(
            f"the tombstone's key is {what}, and it takes several fields to find its row",
            fields=list(fields),
        )
    return fields[0]


def _has_control_characters(text: str) -> bool:
    return any(char < " " or char == "\x7f" for char in text)


def _parse_json(key: bytes) -> Any:
    if measure_depth(key) > DEPTH_MAX:
        raise InvalidInput(f"the tombstone's key is nested deeper than {DEPTH_MAX} levels")
    try:
        return json.loads(key, object_pairs_hook=_reject_duplicate_fields)
    except ValueError as error:
        raise InvalidInput("the tombstone's key is not a JSON object or value") from error


def _reject_duplicate_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise InvalidInput("the tombstone's key has a field twice")
    return fields


def _format_value(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        raise InvalidInput("the tombstone's key lacks a field that finds its row", field=name)
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int):
        raise InvalidInput("the tombstone's key holds what no key is made of", field=name)
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput("the tombstone's key holds half a character", field=name) from error
    return text


def _cast(texts: Any, target: pa.DataType) -> tuple[Any, list[int]]:
    """Cast the texts. Return the values, null for a text that does not fit, and their positions."""
    try:
        return texts.cast(target), []
    except pa.ArrowException:
        pass

    def fails(start: int, rows: int) -> bool:
        try:
            texts.slice(start, rows).cast(target)
        except pa.ArrowException:
            return True
        return False

    failed = find_failing_rows(len(texts), fails, most=len(texts))
    is_bad = np.zeros(len(texts), np.bool_)
    is_bad[failed] = True
    return pc.if_else(pa.array(is_bad), None, texts).cast(target), failed
