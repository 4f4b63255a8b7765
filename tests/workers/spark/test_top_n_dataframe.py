"""The n first rows of each group through Spark are those that are found without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.test_top_n import BEST, SCORES, overtaken
from tests.support.scenario_table import ScenarioTable

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("partition_by", [["cat"], []], ids=["groups", "whole table"])
def test_of_equal_rows_those_stand_first_whose_commits_completed_first(
    spark: SparkSession, tmp_path: Path, partition_by: list[str]
) -> None:
    scores = ScenarioTable(
        tmp_path / "scores",
        table_type="MERGE_ON_READ",
        schema=SCORES,
        ordering=["ts"],
        options={"hoodie.bucket.index.num.buckets": "3"},
    )
    overtaken(scores)

    ranking: dict[str, Any] = {
        "partition_by": partition_by,
        "order_by": BEST["order_by"],
        "columns": ["id"],
    }
    for n, keys in ((1, ["x3"]), (2, ["x2", "x3"])):
        top_rows = scores.lakehouse.top_n(**ranking, n=n, spark=spark).collect()
        assert sorted(row["id"] for row in top_rows) == keys
        here = scores.lakehouse.top_n(**ranking, n=n).column("id").to_pylist()
        assert sorted(here) == keys
