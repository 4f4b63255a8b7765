"""Types that hudi-rs 0.5.0 cannot read, rejected in tables that are declared portable (format page
7).
"""

from __future__ import annotations

from workers.errors import InvalidInput
from workers.schema.table_schema import TableSchema

_ZONELESS = "local-timestamp"


def check_portable(schema: TableSchema) -> None:
    """Check that hudi-rs can read every column. Raises InvalidInput naming those that it cannot."""
    zoneless = [
        field["name"] for field in schema.to_avro()["fields"] if _holds_zoneless(field["type"])
    ]
    if zoneless:
        raise InvalidInput(
            "a portable table has no timestamps without a time zone: hudi-rs cannot read them",
            columns=zoneless,
        )


def _holds_zoneless(avro: object) -> bool:
    """Check for timestamps without a time zone at any depth of an Avro type."""
    if isinstance(avro, list):
        return any(_holds_zoneless(member) for member in avro)
    if not isinstance(avro, dict):
        return False
    if str(avro.get("logicalType", "")).startswith(_ZONELESS):
        return True
    inner = [avro.get(name) for name in ("type", "items", "values")]
    fields = [field["type"] for field in avro.get("fields", [])]
    return any(_holds_zoneless(member) for member in [*inner, *fields])
