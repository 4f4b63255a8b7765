"""Options of one table, each with the value that applies and its source. No value is a secret: an
address from the settings of the node is only reported as set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from controlplane.operations.schedules import service_settings
from controlplane.tables.models import Table
from workers.masking import Masker
from workers.options.node_options import CONNECTIONS
from workers.options.option import OptionSet
from workers.options.service_keys import (
    ARCHIVE_PARAMETERS,
    CLEAN_PARAMETERS,
    CLUSTERING_PARAMETERS,
    COMPACTION_PARAMETERS,
    INLINE_OPTIONS,
)
from workers.options.table_keys import BUCKETS_KEY, TABLE_OPTIONS
from workers.options.write_keys import WRITE_OPTIONS

TableSettingSource = Literal["table property", "service setting", "node setting", "default"]
_STORED: Final = "Other properties"
_AREAS: Final[Sequence[tuple[str, OptionSet]]] = (
    ("Table", TABLE_OPTIONS),
    ("Writes that name no other value", WRITE_OPTIONS),
    ("Services after a commit", INLINE_OPTIONS),
)
_SERVICES: Final[Sequence[tuple[str, str, OptionSet]]] = (
    ("Compaction", "compaction", COMPACTION_PARAMETERS),
    ("Clustering", "clustering", CLUSTERING_PARAMETERS),
    ("Cleaning", "clean", CLEAN_PARAMETERS),
    ("Archiving", "archive", ARCHIVE_PARAMETERS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettingRow:
    """One option of one table."""

    area: str
    key: str
    value: str
    """The value that applies; empty where nothing is set, and `meaning` states what follows. An
    address from the settings of the node is `set`.
    """
    source: TableSettingSource
    default: str
    meaning: str


def load_table_settings(table: Table, environ: Mapping[str, str]) -> list[TableSettingRow]:
    """Return the options of the table by area. `environ` is that of the node. One query."""
    return [*_options(table, environ), *_parameters(table), *_other_properties(table)]


def _options(table: Table, environ: Mapping[str, str]) -> Iterator[TableSettingRow]:
    for area, options in _AREAS:
        for key in options:
            default = options[key].default
            source: TableSettingSource = "default"
            if key == BUCKETS_KEY and table.table_type and table.bucket_count is None:
                default = ""  # Its index has no buckets.
            value = default
            if key in table.properties:
                value, source = _format(key, table.properties[key]), "table property"
            elif environ.get(CONNECTIONS.get(key, "")):
                value, source = "set", "node setting"
            yield _row(area, options, key, value, source)


def _parameters(table: Table) -> Iterator[TableSettingRow]:
    by_service = {row.service: row.parameters for row in service_settings(table)}
    for area, service, options in _SERVICES:
        parameters = by_service.get(service, {})
        for key in options:
            if key in parameters:
                yield _row(area, options, key, _format(key, parameters[key]), "service setting")
            else:
                yield _row(area, options, key, options[key].default, "default")


def _other_properties(table: Table) -> Iterator[TableSettingRow]:
    """Properties that Hudi or another engine stored, and those that identify the table."""
    documented = {key for _, options in _AREAS for key in options}
    for key in sorted(set(table.properties) - documented):
        yield TableSettingRow(
            area=_STORED,
            key=key,
            value=_format(key, table.properties[key]),
            source="table property",
            default="",
            meaning="",
        )


def _row(
    area: str, options: OptionSet, key: str, value: str, source: TableSettingSource
) -> TableSettingRow:
    option = options[key]
    return TableSettingRow(
        area=area,
        key=key,
        value=value,
        source=source,
        default=option.default,
        meaning=option.meaning,
    )


def _format(key: str, value: object) -> str:
    """The value as text, or a mask where its name is that of a secret."""
    return Masker().mask(f"{key}={value}").removeprefix(f"{key}=")
