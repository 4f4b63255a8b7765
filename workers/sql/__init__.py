"""A small SQL entry point: one statement in, one commit out that holds the named columns only.

Statements are read in Spark's spelling. Expressions are computed by Spark where a session is given,
by DuckDB in this process otherwise; nothing is computed here. What is not supported is refused by
name before anything is written.
"""

from __future__ import annotations

from workers.sql.run import run_sql

__all__ = ["run_sql"]
