"""Rows that a SELECT over registered tables makes, as the source of one write.

The control plane has said which tables and which of their columns the statement may read, from what
its requester may see; here the statement is checked once more against exactly these, and what Spark
gets is spelled anew from that check.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from workers.clock import InstantTime
from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable
from workers.ports import system_ports
from workers.spark.inputs.source import JobSource, Surroundings, WrittenOnce
from workers.sql.checking import CheckedSelect, ReadableTable, check_select, compute
from workers.storage.roots import storage_under_root
from workers.table.table import open_


@dataclass(frozen=True, slots=True)
class QuerySource(WrittenOnce):
    """One round: the rows of the statement, over the tables as they are when it is asked."""

    checked: CheckedSelect
    tables: Mapping[str, LakehouseTable]

    @classmethod
    def from_job(cls, job_source: JobSource, around: Surroundings) -> QuerySource:
        """Opens the tables that the job names. Raises InvalidInput for another key, a statement
        that reads anything else, or a table outside the table roots; as `open_`.
        """
        job_source.only("statement", "tables")
        given = _tables(job_source.text("tables"))
        readable = {name: ReadableTable(columns) for name, (_, columns) in given.items()}
        checked = check_select(
            job_source.text("statement"),
            lambda names: {name: readable[name] for name in names if name in readable},
        )
        opened = {
            name: LakehouseTable(
                open_(storage_under_root(location, around.environment), system_ports())
            )
            for name, (location, _) in given.items()
            if name in checked.tables
        }
        return cls(checked, opened)

    def frame(self, spark: SparkSession, number: int) -> DataFrame:
        """What the statement answers, whatever `number`. Raises InvalidInput for what Spark cannot
        compute.
        """
        answer: DataFrame = compute(self.checked, self.tables, spark)
        return answer

    def before_commit(self, instant: InstantTime) -> None:
        """Nothing: no rival is waited for."""
        return


def _tables(text: str) -> dict[str, tuple[str, dict[str, str]]]:
    """By name: the location and the columns with their types. Raises InvalidInput."""
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


INPUTS: Final = {"sql": QuerySource.from_job}
