"""`hoodie.properties` changed as Apache Hudi changes it: without our lock, and not in one step."""

from __future__ import annotations

from pathlib import Path

from workers.files.properties import parse_properties
from workers.table_layout import PROPERTIES, PROPERTIES_BACKUP

METADATA_ON = {"hoodie.table.metadata.partitions": "column_stats,files,partition_stats"}
"""What one write of Hudi 1.2 with its defaults leaves there."""
METADATA_OFF = {"hoodie.table.metadata.partitions": ""}


def change_as_hudi(location: Path, changes: dict[str, str]) -> None:
    """Backup, the file away, the file anew, backup away. An empty value takes the key away."""
    file, backup = location / PROPERTIES.path, location / PROPERTIES_BACKUP.path
    old_content = file.read_bytes()
    properties = parse_properties(old_content) | changes
    backup.write_bytes(old_content)
    file.unlink()
    lines = [f"{key}={_escaped(value)}" for key, value in sorted(properties.items()) if value]
    file.write_text("\n".join(["#Updated at 2026-01-31T12:00:00Z", *lines, ""]))
    backup.unlink()


def _escaped(value: str) -> str:
    """As `java.util.Properties` writes it, as far as our tables need it."""
    for char in "\\:=#!":
        value = value.replace(char, f"\\{char}")
    return value
