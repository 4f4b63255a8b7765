"""Tables of versions 6 and 8, as files: those that Apache Hudi wrote, and one with an archive."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import fastavro

from tests.support.memory_storage import Files
from workers.files.avro_container import parse_schema
from workers.files.log_block import BlockType, HeaderKey, encode_block
from workers.timeline.avro_schemas import COMMIT_METADATA

_MODIFIED_MS = 1_780_000_000_000
_ARCHIVE = ".hoodie/archived/.commits_.archive.1_1-0-1"
_TIMELINE = ".hoodie/"


def files_of(archive: Path) -> Files:
    """The table of a zip, without what macOS and Hadoop put beside the files."""
    files: Files = {}
    with zipfile.ZipFile(archive) as zipped:
        for name in zipped.namelist():
            path = name.partition("/")[2]
            if path and not name.endswith(("/", ".crc", ".DS_Store")) and "__MACOSX" not in name:
                files[path] = (zipped.read(name), _MODIFIED_MS)
    return files


def with_oldest_archived(files: Files) -> Files:
    """The oldest commit of a table of version 6 moved from the timeline into the archive, in the
    form in which Hudi writes it: a record per instant and state.
    """
    names = sorted(path for path in files if path.startswith(_TIMELINE) and path[8:9].isdigit())
    [oldest] = [name for name in names if name.endswith("commit") and name[:25] == names[0][:25]]
    commit_metadata = json.loads(files[oldest][0])
    requested_at, action = oldest.removeprefix(_TIMELINE).split(".")
    kept = {
        path: file
        for path, file in files.items()
        if not path.startswith(f"{_TIMELINE}{requested_at}.")
    }
    record = {
        "hoodieCommitMetadata": commit_metadata,
        "commitTime": requested_at,
        "actionType": action,
        "actionState": "COMPLETED",
    }
    kept[_ARCHIVE] = (archive_block(_ENTRY, record), _MODIFIED_MS)
    return kept


def _optional(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None}


_ENTRY = {
    "type": "record",
    "name": "HoodieArchivedMetaEntry",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        _optional("hoodieCommitMetadata", COMMIT_METADATA),
        *(_optional(name, "string") for name in ("commitTime", "actionType", "actionState")),
    ],
}


def archive_block(entry: dict[str, Any], *records: dict[str, Any]) -> bytes:
    """One block of an archive's log file."""
    schema = parse_schema(json.dumps(entry))
    content = struct.pack(">ii", 3, len(records))
    for record in records:
        datum = io.BytesIO()
        fastavro.schemaless_writer(datum, schema, record)
        content += struct.pack(">i", len(datum.getvalue())) + datum.getvalue()
    return encode_block(BlockType.AVRO_DATA, {HeaderKey.SCHEMA: json.dumps(entry)}, content)
