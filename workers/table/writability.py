"""Checks whether Sluice can write into a table of any engine; the reason if not, and what to do.

They run when a table is opened, so that a write is rejected before its first effect. They run again
when a write begins, and under the lock for its commit: another engine can change the properties of
an open table at any time, and Hudi's defaults switch the metadata table on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from workers.errors import TableChanged, UnsupportedTable
from workers.files.properties import CHECKSUM_KEY
from workers.installation import format_command
from workers.options.index_kind import INDEX_KEY, IndexKind, explain_unsupported_index
from workers.options.readability import OWN_KEY
from workers.options.table_keys import BUCKETS_KEY
from workers.options.table_options import TableConfig, config_from_properties
from workers.table.key_generators import find_generator_refusal

WRITTEN_VERSION: Final = 9
TIME_ZONE_KEY: Final = "hoodie.table.timeline.timezone"
METADATA_KEY: Final = "hoodie.table.metadata.partitions"
METADATA_KEYS: Final = (METADATA_KEY, "hoodie.table.metadata.partitions.inflight")
METADATA_REFUSAL: Final = (
    "the table has an active metadata table, which Sluice does not maintain; let the engine that "
    "made it delete it (one write with hoodie.metadata.enable=false), and keep it off"
)
_UPGRADE: Final = (
    f"; upgrade the table first (`{format_command('table upgrade')}`, or `table.upgrade()`)"
)
_ADOPT: Final = f"; adopt the table first (`{format_command('table adopt')}`, or `table.adopt()`)"


def find_write_refusal(properties: Mapping[str, str], config: TableConfig) -> str | None:
    """Return why the table cannot be written; None if it can."""
    if lasting := find_lasting_refusal(properties, config):
        return lasting
    if properties.get(TIME_ZONE_KEY, "LOCAL") != "UTC":  # Hudi's own default.
        return f"the timeline is kept in a local time zone; Sluice writes UTC only{_ADOPT}"
    if config.index is IndexKind.BUCKET and config.buckets == 0:
        return f"the properties lack {BUCKETS_KEY}, so keys cannot be placed{_ADOPT}"
    return None


def find_change(
    opened: TableConfig, before: Mapping[str, str], now: Mapping[str, str]
) -> UnsupportedTable | TableChanged | None:
    """Return why a handle that read `before` must not write the properties `now`; None if it can. A
    new column group does not stop other writers (`Table.check_writable`).
    """
    if now == before:
        return None
    try:
        config = config_from_properties(now)
    except UnsupportedTable as refusal:
        return refusal
    if reason := find_write_refusal(now, config):
        return UnsupportedTable(reason)
    if _get_placement_config(config) == _get_placement_config(opened):
        return None
    return TableChanged(
        "the table's properties were changed since it was opened; open it again",
        changed=find_changed_keys(before, now),
    )


def find_changed_keys(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the keys that changed. An empty value counts as none, and the checksum does
    not count.
    """
    keys = {*before, *now} - {CHECKSUM_KEY}
    return sorted(key for key in keys if before.get(key, "") != now.get(key, ""))


def _get_placement_config(config: TableConfig) -> TableConfig:
    """Return the part of the configuration that decides the placement and the merging of rows."""
    return replace(
        config,
        name="",
        is_portable=False,
        archive_folder="",
        create_schema_json=None,
        groups=None,
        top_n="",
        concurrency_mode=None,
    )


def is_made_by_sluice(properties: Mapping[str, str]) -> bool:
    """Check whether Sluice created the table: all of its tables have this property."""
    return OWN_KEY in properties


def find_lasting_refusal(properties: Mapping[str, str], config: TableConfig) -> str | None:
    """Return why the table cannot be written, for reasons that adopting it does not remove; None if
    there are none.
    """
    if config.version != WRITTEN_VERSION:
        return f"tables of version {config.version} are read only{_UPGRADE}"
    if any(properties.get(key) for key in METADATA_KEYS):
        return METADATA_REFUSAL
    if properties.get("hoodie.table.cdc.enabled") == "true":
        return "the table logs changes (CDC), which Sluice does not maintain"
    if refusal := _key_refusal(properties, config):
        return refusal
    if len(config.ordering) > 1:
        return "tables with several ordering fields are read only"
    if not config.has_meta_columns:
        return "tables without meta columns are read only"
    return explain_unsupported_index(properties.get(INDEX_KEY) or IndexKind.BUCKET)


def _key_refusal(properties: Mapping[str, str], config: TableConfig) -> str | None:
    if not config.record_key:
        return "the table has no record key, so rows cannot be placed"
    if not set(config.hash_fields) <= set(config.record_key):
        return "fields outside the record key choose the bucket, so keys cannot be placed"
    return find_generator_refusal(properties, config)
