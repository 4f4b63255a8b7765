"""The rows that a delete takes: those that match a condition, or those whose keys are listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from workers.errors import InvalidInput
from workers.options.table_options import TableConfig
from workers.read.predicate import Predicate, predicate_of
from workers.schema.table_schema import TableSchema
from workers.table_services.input_rows import FILE_KEYS, PATH_KEY, parse_keys, read_input_rows

PREDICATE_KEY = "predicate"
KEYS_KEY = "keys"
_KNOWN = frozenset({PREDICATE_KEY, KEYS_KEY, *FILE_KEYS})


class Selection(Protocol):
    """The rows that a delete takes: made by `parse_selection`."""

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns that it reads; None when that is not known."""
        ...

    @property
    def listed(self) -> pa.Table | None:
        """The keys whose rows are deleted, whatever they hold; None if the values of a
        row decide.
        """
        ...

    def of(self, rows: pa.Table) -> pa.Table:
        """Return the rows that it takes."""
        ...


@dataclass(frozen=True, slots=True)
class _ByPredicate:
    predicate: Predicate
    listed: None = None

    @property
    def columns(self) -> frozenset[str] | None:
        return self.predicate.columns

    def of(self, rows: pa.Table) -> pa.Table:
        return rows.filter(self.predicate.expression)


@dataclass(frozen=True, slots=True)
class _ByKeys:
    keys: pa.Table
    """Key columns; the partition's as well where a key is meant in one partition only."""

    @property
    def listed(self) -> pa.Table:
        return self.keys

    @property
    def columns(self) -> frozenset[str] | None:
        return frozenset(self.keys.column_names)

    def of(self, rows: pa.Table) -> pa.Table:
        return rows.join(
            self.keys, self.keys.column_names, join_type="left semi", use_threads=False
        )


def parse_selection(
    config: TableConfig, schema: TableSchema, parameters: Mapping[str, str]
) -> Selection:
    """Parse the parameters, one of three: `predicate`, such as `city = 'Oslo' and ts < 5`; `keys`,
    a JSON list such as `["a", "b"]` or `[{"id": "a", "city": "Oslo"}]`; `path`, a file of keys.

    Raises InvalidInput.
    """
    if unknown := sorted(set(parameters) - _KNOWN):
        raise InvalidInput("unknown parameter", keys=unknown, known=sorted(_KNOWN))
    present_keys = [
        key for key in (PREDICATE_KEY, KEYS_KEY, PATH_KEY) if parameters.get(key, "").strip()
    ]
    match present_keys:
        case [key] if key == PREDICATE_KEY:
            return _ByPredicate(predicate_of(parameters[key], schema.arrow))
        case [key] if key == KEYS_KEY:
            rows = parse_keys(parameters[key], schema.arrow, single=config.record_key)
            return _by_keys(config, schema, rows)
        case [_]:
            located = {*config.record_key, *config.partition_by}
            typed_schema = pa.schema([field for field in schema.arrow if field.name in located])
            rows = read_input_rows(parameters, typed_schema, keys=config.record_key)
            return _by_keys(config, schema, rows)
        case _:
            raise InvalidInput(
                "a delete needs a predicate, or keys, or a file of keys; one of them",
                given=present_keys,
            )


def _by_keys(config: TableConfig, schema: TableSchema, rows: pa.Table) -> Selection:
    """Build a selection of listed keys. Other columns of a file are ignored."""
    if missing := [name for name in config.record_key if name not in rows.column_names]:
        raise InvalidInput("a key has a value for each key column", missing=missing)
    located = dict.fromkeys((*config.record_key, *config.partition_by))
    key_columns = [name for name in located if name in rows.column_names]
    typed = pa.schema([schema.arrow.field(name).with_nullable(True) for name in key_columns])
    try:
        return _ByKeys(rows.select(key_columns).cast(typed))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput("keys are not of the table's types", why=error) from error
