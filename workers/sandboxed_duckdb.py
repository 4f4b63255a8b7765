"""A sandboxed DuckDB database in memory that reaches no file, no network and no setting of its own:
it has only the relations that the caller registers.
"""

from __future__ import annotations

from typing import Final

import duckdb

_CONFIG: Final = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
}


def open_sandboxed_duckdb(
    *, memory_bytes: int | None = None, threads: int | None = None
) -> duckdb.DuckDBPyConnection:
    """Open the database; times are UTC. With `memory_bytes` nothing is spilled to disk: larger data
    raises OutOfMemoryException of DuckDB.
    """
    config: dict[str, str] = dict(_CONFIG)
    if memory_bytes is not None:
        config |= {"memory_limit": f"{memory_bytes}B", "temp_directory": ""}
    if threads is not None:
        config["threads"] = str(threads)
    database = duckdb.connect(":memory:", config=dict(config))
    database.execute("SET TimeZone = 'UTC'")
    database.execute("SET lock_configuration = true")
    return database
