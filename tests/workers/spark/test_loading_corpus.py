"""The corpus of `tests/files` as sources of Spark writes: the same rows as everywhere else."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.workers.loading.corpus import Case, cases, plain
from workers.errors import InvalidInput
from workers.lakehouse import create_table
from workers.loading.options import load_options
from workers.spark.inputs import open_source

pytestmark = pytest.mark.spark
CASES = cases()


@pytest.mark.sampled(every=20)
@pytest.mark.parametrize("case", CASES, ids=[case.path.name for case in CASES])
def test_frame_has_the_rows_of_the_file_or_the_file_is_refused(
    case: Case, spark: SparkSession, tmp_path: Path
) -> None:
    drop = tmp_path / "drop"
    drop.mkdir()
    file = drop / re.sub(r"[^\w.]", "_", case.path.name)
    shutil.copyfile(case.path, file)
    names = case.table.names if case.table is not None else list(case.types)
    key = case.key or next(iter(names), "id")
    table = create_table(tmp_path / "t", name="t", schema=case.table, record_key=[key])
    kind = load_options({}).get_format(file.name)
    source = {"kind": kind, "path": str(file), **case.options}

    def frame() -> DataFrame:
        opened = open_source(
            source,
            table=table.table,
            writer="w",
            environment={"SLUICE_SOURCE_ROOTS": str(drop)},
            scratch=tmp_path,
        )
        return opened.frame(spark, 0)

    if case.refused:
        with pytest.raises(InvalidInput) as refusal:
            frame()
        assert re.search(case.refused, str(refusal.value), re.DOTALL)
        return

    rows = frame()

    assert plain(rows.toArrow().to_pylist()) == case.rows
