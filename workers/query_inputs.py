"""The rows of a SELECT over registered tables, or of a query of a database, as the source of one
write.

The control plane has decided which tables and columns the statement may read, from its requester's
permissions; here the statement is checked again against exactly these, and rebuilt from that check.
A process with limits computes it (`workers.sql.child`) and not Spark, which all writes of the node
share: one statement could take its memory, or hold its slots with a regular expression that Java
cannot interrupt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from workers.bounded_process import ProcessLimits, run_bounded
from workers.connections import DatabaseConnection
from workers.errors import InvalidInput
from workers.given_connection import load_connection_of_kind
from workers.locations import resolve_location
from workers.postgresql import DatabaseQuery, write_rows
from workers.spark.inputs.files import parquet_frame
from workers.spark.inputs.opening import Opener
from workers.spark.inputs.source import JobSource, Surroundings, WrittenOnce
from workers.sql.checking import CheckedSelect, ReadableTable, check_select
from workers.storage.roots import storage_under_root

_FILE_SPARE_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class QuerySource(WrittenOnce):
    """A source of one batch: the rows of the statement, over the tables as they are when it
    runs.
    """

    checked: CheckedSelect
    locations: Mapping[str, str]
    """The locations of the tables that the statement reads, by their names in it."""
    environment: Mapping[str, str] = field(repr=False)
    file: Path
    """Where the rows are put for Spark."""

    @classmethod
    def from_job(cls, job_source: JobSource, around: Surroundings) -> QuerySource:
        """Check the statement and the tables that the job names. Raises InvalidInput for another
        key, a statement that reads anything else, or a table outside the table roots.
        """
        job_source.only("statement", "tables")
        tables = _tables(job_source.text("tables"))
        readable = {name: ReadableTable(columns) for name, (_, columns) in tables.items()}
        checked = check_select(
            job_source.text("statement"),
            lambda names: {name: readable[name] for name in names if name in readable},
        )
        names = [column.name for column in checked.columns]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidInput("two columns of the statement have one name", columns=twice)
        locations = dict[str, str]()
        for name in checked.tables:
            storage_under_root(tables[name][0], around.environment)
            locations[name] = resolve_location(tables[name][0])
        return cls(checked, locations, around.environment, around.scratch / "statement.parquet")

    def frame(self, spark: SparkSession, number: int) -> DataFrame:
        """Return the rows of `compute`, whatever `number`. Raises as it does."""
        self.compute()
        return parquet_frame(spark, self.file)

    def compute(self) -> None:
        """Write the statement's rows, as the tables are now, to `file`.

        Raises InvalidInput for what cannot be computed, LimitHit for what exceeds this node's
        settings.
        """
        limits, rows_max = limits_of_rows(self.environment)
        tables = [
            {
                "relation": table.relation,
                "location": self.locations[name],
                "columns": table.columns,
                "times_read": table.times_read,
                "hint": table.hint,
            }
            for name, table in self.checked.tables.items()
        ]
        job: dict[str, Any] = {
            "text": self.checked.text("duckdb"),
            "names": [column.name for column in self.checked.columns],
            "tables": tables,
            "rows_max": rows_max,
            "file": str(self.file),
        }
        run_bounded(
            "workers.sql.child",
            job,
            limits=limits,
            work="the statement",
            environ=self.environment,
            locations=list(self.locations.values()),
        )


@dataclass(frozen=True, slots=True)
class DatabaseSource(WrittenOnce):
    """A source of one batch: the rows of a PostgreSQL database, read by a process with limits."""

    connection: DatabaseConnection
    query: DatabaseQuery
    environment: Mapping[str, str] = field(repr=False)
    file: Path
    """Where the rows are put for Spark."""

    @classmethod
    def from_job(cls, job_source: JobSource, around: Surroundings) -> DatabaseSource:
        """Take the connection of this process, and the job's request. Raises InvalidInput."""
        job_source.only("connection", "table", "query")
        name = job_source.text("connection")
        query = DatabaseQuery(
            table=job_source.text("table", ""), query=job_source.text("query", "")
        )
        connection = load_connection_of_kind(name, DatabaseConnection, around.environment)
        return cls(connection, query, around.environment, around.scratch / "database.parquet")

    def frame(self, spark: SparkSession, number: int) -> DataFrame:
        """Return the rows of `compute`, whatever `number`. Raises as it does."""
        self.compute()
        return parquet_frame(spark, self.file)

    def compute(self) -> None:
        """Write the rows, as they are now, to `file`.

        Raises InvalidInput for what cannot be read exactly, LimitHit for what exceeds this node's
        settings.
        """
        limits, rows_max = limits_of_rows(self.environment)
        write_rows(
            self.connection,
            self.query,
            self.file,
            rows_max=rows_max,
            limits=limits,
            environ=self.environment,
        )


def limits_of_rows(environment: Mapping[str, str]) -> tuple[ProcessLimits, int]:
    """Return the limits of this node for a statement or a query whose rows are written, and how
    many rows it may have. Raises InvalidInput for a setting that is not a number.
    """

    def setting(name: str, default: int) -> int:
        text = environment.get(name) or str(default)
        if not text.isdecimal() or not int(text):
            raise InvalidInput("a setting is not a whole number above 0", variable=name)
        return int(text)

    seconds = setting("SLUICE_SQL_WRITE_SECONDS", 600)
    answer_bytes = setting("SLUICE_SQL_WRITE_MB", 2_048) << 20
    limits = ProcessLimits(
        memory_bytes=setting("SLUICE_SQL_WRITE_MEMORY_MB", 2_048) << 20,
        wall_s=seconds,
        cpu_s=2 * seconds,
        answer_bytes=answer_bytes,
        file_bytes=answer_bytes + _FILE_SPARE_BYTES,
    )
    return limits, setting("SLUICE_SQL_WRITE_ROWS", 50_000_000)


def _tables(text: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Parse the location and the columns with their types, by name. Raises InvalidInput."""
    try:
        return {
            str(name): (
                str(table["location"]),
                {str(c): str(t) for c, t in table["columns"].items()},
            )
            for name, table in json.loads(text).items()
        }
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInput("the tables of a statement are not as a job has them") from error


INPUTS: Final[Mapping[str, Opener]] = {
    "postgresql": DatabaseSource.from_job,
    "sql": QuerySource.from_job,
}
