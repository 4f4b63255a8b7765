"""What others change in a table's properties: told by comparing them with what the last sync saw.

Sluice changes them when a table is adopted or upgraded and when a column group is declared, and
says so in keys of its own. Everything else was somebody else: Apache Hudi, which switches its
metadata table on and off there, or a person with an editor.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from controlplane.tables.models import Table
from workers.errors import NotFound
from workers.files.properties import is_our_writing
from workers.options.group_keys import GROUPS_KEY
from workers.options.readability import VERSION_KEY
from workers.storage.base import Storage
from workers.table import table as engine
from workers.table.external_changes import ExternalChange, load_external_changes
from workers.table.writability import find_changed_keys
from workers.table_layout import PROPERTIES

CHANGES_KEPT_MAX: Final = 20
VALUE_CHARS_MAX: Final = 200
_OWN_PREFIX: Final = "sluice."


def overtaken_commits(table: Table, opened: engine.Table) -> list[ExternalChange]:
    """Looked for only in a table whose properties changed: in any other there are none."""
    is_changed = find_changed_keys(table.properties, _short(opened.properties))
    if not (table.property_changes or table.overtaken or opened.write_refusal or is_changed):
        return []
    return load_external_changes(opened.storage)


def described_properties(
    table: Table, opened: engine.Table, met: list[ExternalChange], now: datetime
) -> dict[str, Any]:
    """The columns of the table that tell of its properties."""
    changes, now_said = list(table.property_changes), _short(opened.properties)
    keys = find_changed_keys(table.properties, now_said) if table.properties else []
    if keys and not _is_ours(keys, opened.storage):
        changes += [
            {
                "at_ms": int(now.timestamp() * 1000),
                "key": key,
                "before": table.properties.get(key, ""),
                "after": now_said.get(key, ""),
            }
            for key in keys
        ]
    overtaken = [
        {"instant": one.instant, "change": one.change, "seen_ms": one.seen_ms} for one in met
    ]
    return {
        "properties": now_said,
        "property_changes": changes[-CHANGES_KEPT_MAX:],
        "overtaken": overtaken,
    }


def _is_ours(keys: list[str], storage: Storage) -> bool:
    if any(key.startswith(_OWN_PREFIX) or key == GROUPS_KEY for key in keys):
        return True
    if VERSION_KEY not in keys:
        return False
    try:  # Both engines upgrade tables in the same words, but not under the same heading.
        return is_our_writing(storage.read(PROPERTIES.path))
    except NotFound:
        return False


def _short(properties: Mapping[str, str]) -> dict[str, str]:
    """Without what is empty; of a long value its beginning, and what tells it from others."""
    return {key: _shortened(value) for key, value in properties.items() if value}


def _shortened(value: str) -> str:
    if len(value) <= VALUE_CHARS_MAX:
        return value
    return f"{value[:VALUE_CHARS_MAX]}… ({sha256(value.encode()).hexdigest()[:16]})"
