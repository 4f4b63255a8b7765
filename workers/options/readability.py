"""Checks of tables of other engines: an unreadable one is rejected by name when it is opened.

Every rule here prevents rows that would be missing or wrong silently. Tables that may be read but
not written are in `table/writability.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from workers.errors import UnsupportedTable
from workers.options.option_values import integer
from workers.options.payloads import (
    LEGACY_PAYLOAD_KEY,
    MERGE_MODE_KEY,
    PARTIAL_IGNORE_DEFAULTS,
    PARTIAL_KEY,
    STRATEGY_KEYS,
    TABLE_PAYLOAD_KEY,
)

VERSION_KEY: Final = "hoodie.table.version"
LAYOUT_KEY: Final = "hoodie.timeline.layout.version"
INITIAL_KEY: Final = "hoodie.table.initial.version"
HISTORY_KEY: Final = "sluice.history.since"
"""From here on the history holds all that completed and was archived: the table was made, adopted
or upgraded then.
"""
ADOPTED_KEY: Final = "sluice.adopted.at"
"""When Sluice began to write into a table that another engine made."""
OWN_KEY: Final = "sluice.portable"
"""Every table that Sluice made has it."""
_ARCHIVE_KEY: Final = "hoodie.archivelog.folder"
_LAYOUTS: Final = {6: 1, 8: 2, 9: 2}
"""Table version -> the layout of its timeline."""
_EXPECTED: Final = {
    "hoodie.table.base.file.format": ("PARQUET", "its base files are of another format"),
    "hoodie.table.format": ("native", "its files are listed by another table format"),
    "hoodie.timeline.path": ("timeline", "its timeline is in another directory"),
    "hoodie.timeline.history.path": ("history", "its history is in another directory"),
    "hoodie.table.multiple.base.file.formats.enable": (
        "false",
        "its base files are of several formats",
    ),
    "hoodie.datasource.write.drop.partition.columns": (
        "false",
        "its files lack their partition columns, whose types are written down nowhere",
    ),
}
"""Key -> the value that we read, also when the key is not there, and what another one means."""
_BOOTSTRAP_KEY: Final = "hoodie.bootstrap.base.path"
_MERGE_PROPERTY: Final = "hoodie.record.merge.property."


def table_version(properties: Mapping[str, str]) -> int:
    """Return the table's version. Raises UnsupportedTable for an unsupported one."""
    version = integer(properties, VERSION_KEY, least=0, most=1000)
    if version not in _LAYOUTS:
        raise UnsupportedTable(
            "table version is not read; upgrade the table with the engine that writes it",
            version=version,
            supported=", ".join(map(str, _LAYOUTS)),
        )
    return version


def timeline_layout(properties: Mapping[str, str], version: int) -> int:
    """Return the layout of the table's version. Raises UnsupportedTable when the properties name
    another: the timeline would appear empty.
    """
    layout = properties.get(LAYOUT_KEY)
    if layout and layout != str(_LAYOUTS[version]):
        raise UnsupportedTable(
            "timeline layout is not that of the table version", layout=layout, version=version
        )
    return _LAYOUTS[version]


def has_old_logs(properties: Mapping[str, str], version: int) -> bool:
    """Return True if the table had an older layout once, whose logs outlive their writers. Hudi's
    upgrade records that under the same key.
    """
    initial = properties.get(INITIAL_KEY, "")
    return version != 6 and initial.isdigit() and int(initial) < 8


def archive_folder(properties: Mapping[str, str]) -> str:
    """Return the archive's folder under layout 1. Raises UnsupportedTable if it is outside the
    table.
    """
    folder = properties.get(_ARCHIVE_KEY, "archived")
    if not re.fullmatch(r"[A-Za-z0-9_-]*", folder):
        raise UnsupportedTable("the archive is not in a directory of the table", folder=folder)
    return folder


def history_since(properties: Mapping[str, str]) -> str | None:
    """Return the instant from which on the history is whole; empty for the table's beginning, None
    if it is unknown, as in tables of other engines.

    Some tables have no such property yet: an adopted table records its adoption, and a table
    created here is whole from its beginning.
    """
    since = properties.get(HISTORY_KEY) or properties.get(ADOPTED_KEY)
    return since or ("" if OWN_KEY in properties else None)


def check_files(properties: Mapping[str, str]) -> None:
    """Check by the table's properties that its files can be read here. Raises UnsupportedTable for
    files that we do not read, or would not find.
    """
    for key, (expected, meaning) in _EXPECTED.items():
        actual = properties.get(key) or expected
        if actual.lower() != expected.lower():
            raise UnsupportedTable(f"the table is not read: {meaning}", **{key: actual})
    if source := properties.get(_BOOTSTRAP_KEY):
        raise UnsupportedTable(
            "bootstrapped tables are not read: columns of theirs are in files elsewhere",
            path=source,
        )


def check_merge(properties: Mapping[str, str]) -> None:
    """Check that rows are merged here as the table's writers meant.

    Raises UnsupportedTable for a merge that would differ from the writers'. Whether the merge mode
    is one of ours is checked where it is parsed.
    """
    partial = properties.get(PARTIAL_KEY, "")
    if partial not in ("", PARTIAL_IGNORE_DEFAULTS):
        raise UnsupportedTable("partial update mode is not supported", mode=partial)
    merge_properties = {
        key: value for key, value in properties.items() if key.startswith(_MERGE_PROPERTY)
    }
    if merge_properties:
        raise UnsupportedTable(
            "the table's merge has properties of its own, such as a delete marker in a column",
            **{
                key.removeprefix(_MERGE_PROPERTY): value
                for key, value in sorted(merge_properties.items())
            },
            payload=properties.get(LEGACY_PAYLOAD_KEY, ""),
        )


def custom_merge(properties: Mapping[str, str]) -> UnsupportedTable:
    """Build the error for a merger that we do not have, with all its names."""
    strategy = next((properties[key] for key in STRATEGY_KEYS if properties.get(key)), "")
    payload = properties.get(TABLE_PAYLOAD_KEY) or properties.get(LEGACY_PAYLOAD_KEY) or ""
    return UnsupportedTable(
        "custom record mergers of other engines are not run",
        mode=properties.get(MERGE_MODE_KEY, ""),
        strategy=strategy,
        payload=payload,
    )
