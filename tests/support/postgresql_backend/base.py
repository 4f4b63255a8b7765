"""The classes of the backend, in the module that Django imports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.backends.postgresql import base, operations


class DatabaseOperations(operations.DatabaseOperations):
    def sql_flush(
        self,
        style: Any,
        tables: Sequence[str],
        *,
        reset_sequences: bool = False,
        allow_cascade: bool = False,
    ) -> list[str]:
        """Delete rows instead of truncating: that makes new files for each table and index, and
        takes longer than most tests. Triggers and foreign keys wait, as with TRUNCATE.
        """
        if reset_sequences or not tables:
            return super().sql_flush(
                style, tables, reset_sequences=reset_sequences, allow_cascade=allow_cascade
            )
        deletes = [f"DELETE FROM {self.quote_name(table)}" for table in tables]
        statements = ["SET LOCAL session_replication_role = replica", *deletes]
        return ["; ".join(statements)]


class DatabaseWrapper(base.DatabaseWrapper):
    ops_class = DatabaseOperations
