"""Hudi's payload classes by name, as the equivalent settings since Hudi 1.1.

Nothing is loaded by such a name. Hudi keeps it in `hoodie.table.legacy.payload.class`, and so does
a table that is created by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from workers.errors import InvalidInput

PAYLOAD_KEYS: Final = (
    "hoodie.datasource.write.payload.class",
    "hoodie.compaction.payload.class",
)
TABLE_PAYLOAD_KEY: Final = PAYLOAD_KEYS[1]
LEGACY_PAYLOAD_KEY: Final = "hoodie.table.legacy.payload.class"
STRATEGY_KEYS: Final = (
    "hoodie.record.merge.strategy.id",
    "hoodie.compaction.record.merger.strategy",
)
"""Since Hudi 1.0, and before."""
MERGE_MODE_KEY: Final = "hoodie.record.merge.mode"
PARTIAL_KEY: Final = "hoodie.table.partial.update.mode"
PARTIAL_IGNORE_DEFAULTS: Final = "IGNORE_DEFAULTS"
_PACKAGE = "org.apache.hudi.common.model."
_EVENT_TIME, _COMMIT_TIME = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"
_CUSTOM = "CUSTOM"
STRATEGIES: Final = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": _EVENT_TIME,
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": _COMMIT_TIME,
}
"""Merge strategy id -> the merge mode that it is (format page 1.4)."""


@dataclass(frozen=True, slots=True)
class _Payload:
    merge_mode: str
    partial: str = ""


_PAYLOADS: Final = {
    "DefaultHoodieRecordPayload": _Payload(_EVENT_TIME),
    "EventTimeAvroPayload": _Payload(_EVENT_TIME),
    "OverwriteWithLatestAvroPayload": _Payload(_COMMIT_TIME),
    "OverwriteNonDefaultsWithLatestAvroPayload": _Payload(_COMMIT_TIME, PARTIAL_IGNORE_DEFAULTS),
    "PartialUpdateAvroPayload": _Payload(_EVENT_TIME, PARTIAL_IGNORE_DEFAULTS),
}
_REFUSED: Final = {
    "AWSDmsAvroPayload": "it takes deletes from the column Op; turn these into _hoodie_is_deleted",
    "MySqlDebeziumAvroPayload": "it orders by two fields, and a table has one ordering field; make "
    "one column of binlog file and position that sorts the same way",
    "PostgresDebeziumAvroPayload": "it fills up values that Debezium calls unavailable "
    "(FILL_UNAVAILABLE), which is not there; leave these columns out of the batch",
    "ExpressionPayload": "it belongs to Hudi's own MERGE INTO; use run_sql",
    "HoodieMetadataPayload": "it belongs to Hudi's metadata table",
}


def with_payload(values: Mapping[str, str]) -> dict[str, str]:
    """Return table options with the settings of a payload class among them in its place.

    Raises InvalidInput for a class that has no such settings, or options that contradict it.
    """
    named = {_simple(values[key]) for key in PAYLOAD_KEYS if values.get(key)}
    rest = {key: value for key, value in values.items() if key not in PAYLOAD_KEYS}
    if not named:
        return rest
    if len(named) > 1:
        raise InvalidInput("the payload class is given twice, differently", given=sorted(named))
    (name,) = named
    payload = _payload(name)
    implied = {MERGE_MODE_KEY: payload.merge_mode, PARTIAL_KEY: payload.partial}
    for key, value in implied.items():
        if rest.get(key) and rest[key] != value:
            raise InvalidInput(
                "the option contradicts the payload class; give one of the two",
                key=key,
                given=rest[key],
                payload=name,
                stands_for=value or "whole rows",
            )
    return rest | implied | {LEGACY_PAYLOAD_KEY: _PACKAGE + name}


def _simple(name: str) -> str:
    """Return the name without Hudi's package; a class of another package keeps its own."""
    return name.removeprefix(_PACKAGE).removeprefix("debezium.")


def effective_merge_mode(properties: Mapping[str, str], *, is_ordered: bool) -> str:
    """Return the merge mode that a table names or, as before Hudi 1.0, implies: by its payload
    class, else by its merge strategy, else by whether it has an ordering field. CUSTOM if none of
    ours applies.
    """
    if merge_mode := properties.get(MERGE_MODE_KEY):
        return merge_mode
    if named := properties.get(TABLE_PAYLOAD_KEY):
        payload = _PAYLOADS.get(_simple(named))
        return _CUSTOM if payload is None or payload.partial else payload.merge_mode
    if strategy := next((properties[key] for key in STRATEGY_KEYS if properties.get(key)), None):
        return STRATEGIES.get(strategy, _CUSTOM)
    return _EVENT_TIME if is_ordered else _COMMIT_TIME


def _payload(name: str) -> _Payload:
    if name in _PAYLOADS:
        return _PAYLOADS[name]
    raise InvalidInput(
        "the payload class cannot be taken over",
        payload=name,
        why=_REFUSED.get(name, "code of other engines is not run; register_merger takes your own"),
        known=sorted(_PAYLOADS),
    )
