"""A base file of one table in memory, as tests want it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from workers.files.base_file import Codec, write_base_parts
from workers.storage.base import Storage


def write_base_file(
    storage: Storage,
    path: str,
    table: pa.Table,
    *,
    avro_schema: Mapping[str, Any],
    codec: Codec = "zstd",
    level: int | None = 1,
) -> int:
    """Write `table`, meta columns first, as a new file; the size in bytes.

    Raises InvalidInput when the path exists.
    """
    return write_base_parts(
        storage, path, [table], avro_schema=avro_schema, codec=codec, level=level
    ).bytes
