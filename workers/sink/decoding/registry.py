"""Avro schemas by the ids in record prefixes, from a JSON file: {"1": {...}, "2": {...}}.

The file replaces a schema registry. It is read again when a record has an unknown id and the file
has changed, so new schemas need no restart.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro

from workers.errors import InvalidInput

_BYTES_MAX = 16 << 20
_KEY = "hoodie.sink.schema.file"
_NOT_SCHEMAS = (
    ValueError,
    AttributeError,
    fastavro.schema.SchemaParseException,
    fastavro.schema.UnknownType,
)


class SchemaRegistry:
    """Schemas of one file of at most 16 MiB. Not thread-safe."""

    def __init__(self, path: str) -> None:
        """Raises InvalidInput for a file in another format."""
        self._path = Path(path)
        self._seen: tuple[int, int] | None = None
        self._schemas: dict[int, Any] = {}
        self._read()

    def find_schema(self, schema_id: int) -> Any | None:
        """Return the parsed schema, or None for an id that is not in the file."""
        if schema_id not in self._schemas and self._stamp() != self._seen:
            self._read()
        return self._schemas.get(schema_id)

    def _read(self) -> None:
        self._seen = self._stamp()
        if self._seen[1] > _BYTES_MAX:
            raise InvalidInput("schema file is too large", key=_KEY, bytes=self._seen[1])
        try:
            body = json.loads(self._path.read_bytes())
            schemas = {
                int(schema_id): fastavro.parse_schema(avro) for schema_id, avro in body.items()
            }
        except _NOT_SCHEMAS as error:
            raise InvalidInput(
                "schema file must be a JSON object of ids and Avro schemas",
                key=_KEY,
                given=self._path,
                error=error,
            ) from error
        for number in schemas:
            if not 0 <= number < 2**32:
                raise InvalidInput("a schema id has four bytes", key=_KEY, schema_id=number)
        self._schemas = schemas

    def _stamp(self) -> tuple[int, int]:
        try:
            file_status = self._path.stat()
        except OSError as error:
            raise InvalidInput("no schema file", key=_KEY, given=self._path) from error
        return file_status.st_mtime_ns, file_status.st_size
