"""Whether Sluice writes into a table, whoever made it, and else why not and what to do.

Asked when a table is opened, so that a write is refused before its first effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from workers.index_kind import INDEX_KEY, IndexKind, unsupported_index
from workers.table.key_generators import generator_refusal
from workers.table_config import BUCKETS_KEY, TableConfig

WRITTEN_VERSION: Final = 9
TIME_ZONE_KEY: Final = "hoodie.table.timeline.timezone"
ADOPTED_KEY: Final = "sluice.adopted.at"
"""When Sluice began to write into a table that another engine made."""
METADATA_KEY: Final = "hoodie.table.metadata.partitions"
METADATA_REFUSAL: Final = (
    "the table has an active metadata table, which Sluice does not maintain; let the engine that "
    "made it delete it (hoodie.metadata.enable=false), and keep it off"
)
_OWN_KEY: Final = "sluice.portable"
"""Every table that Sluice made has it."""
_UPGRADE: Final = "; upgrade the table first (`manage.py table upgrade`, or `table.upgrade()`)"
_ADOPT: Final = "; adopt the table first (`manage.py table adopt`, or `table.adopt()`)"


def write_refusal(properties: Mapping[str, str], config: TableConfig) -> str | None:
    """None when the table may be written."""
    if lasting := lasting_refusal(properties, config):
        return lasting
    if properties.get(TIME_ZONE_KEY, "LOCAL") != "UTC":  # Hudi's own default.
        return f"the timeline is kept in a local time zone; Sluice writes UTC only{_ADOPT}"
    if config.index is IndexKind.BUCKET and config.buckets == 0:
        return f"the properties lack {BUCKETS_KEY}, so keys cannot be placed{_ADOPT}"
    return None


def made_by_sluice(properties: Mapping[str, str]) -> bool:
    return _OWN_KEY in properties


def lasting_refusal(properties: Mapping[str, str], config: TableConfig) -> str | None:
    """What adopting the table does not change."""
    if config.version != WRITTEN_VERSION:
        return f"tables of version {config.version} are read only{_UPGRADE}"
    if properties.get(METADATA_KEY):
        return METADATA_REFUSAL
    if properties.get("hoodie.table.cdc.enabled") == "true":
        return "the table logs changes (CDC), which Sluice does not maintain"
    if refusal := _key_refusal(properties, config):
        return refusal
    if len(config.ordering) > 1:
        return "tables with several ordering fields are read only"
    if not config.has_meta_columns:
        return "tables without meta columns are read only"
    return unsupported_index(properties.get(INDEX_KEY) or IndexKind.BUCKET)


def _key_refusal(properties: Mapping[str, str], config: TableConfig) -> str | None:
    if not config.record_key:
        return "the table has no record key, so rows cannot be placed"
    if not set(config.hash_fields) <= set(config.record_key):
        return "fields outside the record key choose the bucket, so keys cannot be placed"
    return generator_refusal(properties, config)
