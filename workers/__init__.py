"""Sluice's engine, which writes Apache Hudi tables from many writers concurrently, in pure Python
over Arrow.

Names are loaded on first use, so that importing one part (for example the marker server) loads
neither Spark nor the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workers.lakehouse import LakehouseTable, create_table, open_table
    from workers.merge.mergers import register_merger
    from workers.schema.strategies import register_schema_strategy
    from workers.sql import run_sql

__all__ = [
    "LakehouseTable",
    "create_table",
    "open_table",
    "register_merger",
    "register_schema_strategy",
    "run_sql",
]


def __getattr__(name: str) -> Any:
    if name == "register_merger":
        from workers.merge import mergers

        return mergers.register_merger
    if name == "register_schema_strategy":
        from workers.schema import strategies

        return strategies.register_schema_strategy
    if name == "run_sql":
        from workers import sql

        return sql.run_sql
    if name in __all__:
        from workers import lakehouse

        return getattr(lakehouse, name)
    raise AttributeError(f"module 'workers' has no attribute {name!r}")
