"""Frames that take more out of lists of the n greatest than their slack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.scenarios.test_exhausted_lists import FULL, TWO_OUT
from tests.scenarios.test_list_slack import RATED, SCHEMA, rated
from tests.support.spark_rival import OPTIONS
from workers.concurrency.outcome import Committed, describe_outcome
from workers.lakehouse import create_table

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_outcome_of_a_frame_and_the_message_of_its_operation_name_the_lists(
    spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    table = create_table(
        tmp_path / "table",
        name="ratings",
        schema=SCHEMA,
        record_key=["id"],
        table_type=table_type,
        options={
            "hoodie.multistream.groups": json.dumps([RATED]),
            "hoodie.bucket.index.num.buckets": "3",
            "hoodie.topn.slack": "1",
        },
    )
    kinds = "id string, at bigint, best array<struct<score: bigint, item: string>>"
    full = spark.createDataFrame([rated(key, 1, *FULL) for key in "abcdef"], kinds)
    fewer = spark.createDataFrame([rated(key, 2, *TWO_OUT) for key in "ace"], kinds)

    filled = table.write(full, options=OPTIONS)
    exhausting = table.write(fewer, options=OPTIONS)

    assert isinstance(filled, Committed)
    assert isinstance(exhausting, Committed)
    assert (filled.warnings, filled.lists_exhausted, exhausting.lists_exhausted) == ((), 0, 3)
    assert "3 lists may miss elements" in describe_outcome(exhausting)
    assert "best of a, best of c, best of e" in describe_outcome(exhausting)
