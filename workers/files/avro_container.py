"""Timeline contents: an Avro object container with exactly one record, uncompressed as in Hudi.

The same record gives the same bytes (the sync marker is derived, not random), so a hash of the
content identifies it.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro

from workers.errors import MalformedTable
from workers.files.avro_limits import check_container, parse_limited_schema

AvroSchema = dict[str, Any]


@functools.lru_cache(maxsize=256)
def parse_schema(avro_json: str) -> Any:
    """Parse a schema for fastavro. Raises MalformedTable."""
    try:
        # `_write_hint` off: the result is cached and shared, so nothing may be added to it later.
        return fastavro.parse_schema(parse_limited_schema(avro_json), _write_hint=False)
    except Exception as error:  # Any text that is not a schema, for any reason.
        raise MalformedTable("not an avro schema", text=avro_json[:200]) from error


def encode_record(schema: Mapping[str, Any], record: Mapping[str, Any]) -> bytes:
    """Return the container of `record`, whose fields are those of `schema`."""
    avro = parse_schema(json.dumps(schema))
    datum = io.BytesIO()
    fastavro.schemaless_writer(datum, avro, dict(record))
    content = io.BytesIO()
    marker = hashlib.md5(datum.getvalue(), usedforsecurity=False).digest()
    fastavro.writer(content, avro, [dict(record)], codec="null", sync_marker=marker)
    return content.getvalue()


def decode_record(content: bytes) -> dict[str, Any]:
    """Return the only record of a container, by the schema in it. Raises MalformedTable."""
    check_container(content)
    try:
        records = list(fastavro.reader(io.BytesIO(content)))
    except Exception as error:  # fastavro raises what it stumbled on
        raise MalformedTable("not an avro container", bytes=len(content)) from error
    if len(records) != 1 or not isinstance(records[0], dict):
        raise MalformedTable("avro container does not hold one record", records=len(records))
    return records[0]
