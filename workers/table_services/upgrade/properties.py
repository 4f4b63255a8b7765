"""The properties of a table of version 6 or 8 as version 9 has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from workers.options.payloads import (
    LEGACY_PAYLOAD_KEY,
    MERGE_MODE_KEY,
    STRATEGY_KEYS,
    TABLE_PAYLOAD_KEY,
)
from workers.options.readability import INITIAL_KEY, LAYOUT_KEY, VERSION_KEY
from workers.options.table_keys import KEY_GENERATOR_KEY
from workers.options.table_options import TableConfig
from workers.table.writability import WRITTEN_VERSION

ORDERING_KEY: Final = "hoodie.table.ordering.fields"
PARTITION_KEY: Final = "hoodie.table.partition.fields"
_PRECOMBINE_KEY: Final = "hoodie.table.precombine.field"
_PLACES: Final = {
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
}


@dataclass(frozen=True, slots=True)
class PropertyChanges:
    """Properties to set, and the keys of those to take away."""

    write: Mapping[str, str]
    remove: tuple[str, ...]

    def apply(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return all properties of the table after the change."""
        unchanged = {key: value for key, value in properties.items() if key not in self.remove}
        return {**unchanged, **self.write}


def plan_property_changes(
    properties: Mapping[str, str], config: TableConfig, *, partition_fields: str = ""
) -> PropertyChanges:
    """Return what has to be written and removed; both are empty for a table of version 9.

    The merge stays the one that readers of the table used so far. Version 9 names it by the mode
    alone, and stores the payload class as a legacy property.
    """
    if config.version == WRITTEN_VERSION:
        return PropertyChanges({}, ())
    new_properties = {
        VERSION_KEY: str(WRITTEN_VERSION),
        LAYOUT_KEY: "2",
        INITIAL_KEY: properties.get(INITIAL_KEY) or str(config.version),
        MERGE_MODE_KEY: config.merge_mode.value,
        **_PLACES,
    }
    if config.key_generator:
        new_properties[KEY_GENERATOR_KEY] = config.key_generator
    if config.ordering:
        new_properties[ORDERING_KEY] = ",".join(config.ordering)
    if payload := properties.get(TABLE_PAYLOAD_KEY):
        new_properties[LEGACY_PAYLOAD_KEY] = payload
    if partition_fields:
        new_properties[PARTITION_KEY] = partition_fields
    obsolete = (*STRATEGY_KEYS, TABLE_PAYLOAD_KEY, _PRECOMBINE_KEY)
    return PropertyChanges(
        {key: value for key, value in new_properties.items() if properties.get(key) != value},
        tuple(key for key in obsolete if key in properties),
    )
