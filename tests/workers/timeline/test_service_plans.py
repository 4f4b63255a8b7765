"""Plans of compaction and clustering, written as Hudi's and read with suspicion."""

from __future__ import annotations

import pytest

from workers.errors import MalformedTable, UnsupportedTable
from workers.files.avro_container import decode_record, encode_record
from workers.timeline.plan_schemas import COMPACTION_PLAN, REQUESTED_REPLACE
from workers.timeline.service_plans import (
    ClusteringPlanFile,
    CompactionPlanFile,
    PlannedSlice,
    read_clustering_plan,
    read_compaction_plan,
)

GROUP = "00000003-0000-0000-0000-000000000000-0"
BASE = f"p=1/{GROUP}_0-1-2_20260101000000000.parquet"
LOGS = (
    f"p=1/.{GROUP}_20260101000000001.log.1_0-1-2",
    f"p=1/.{GROUP}_20260101000000002.log.1_0-1-2",
)
SLICE = PlannedSlice("p=1", GROUP, "20260101000000000", BASE, LOGS, {"TOTAL_LOG_FILES": 2.0})


def test_compaction_plan_names_files_without_their_directory() -> None:
    content = CompactionPlanFile((SLICE,), {"by": "me"}).encode()

    [operation] = decode_record(content)["operations"]
    assert operation["dataFilePath"] == BASE.removeprefix("p=1/")
    assert operation["deltaFilePaths"] == [log.removeprefix("p=1/") for log in LOGS]
    assert read_compaction_plan(content) == CompactionPlanFile((SLICE,), {"by": "me"})


def test_clustering_plan_names_files_by_uri_and_is_read_wherever_the_table_lies() -> None:
    plan = ClusteringPlanFile((SLICE,), {"columns": "a"}, {"by": "me"})
    content = plan.encode("/lake/t")

    [group] = decode_record(content)["clusteringPlan"]["inputGroups"]
    assert group["slices"][0]["dataFilePath"] == f"file:/lake/t/{BASE}"
    read = read_clustering_plan(content)
    assert read is not None
    assert [one.files for one in read.slices] == [SLICE.files]
    assert (read.strategy, read.extra) == (plan.strategy, plan.extra)


def test_slice_of_logs_alone_starts_with_its_first_log() -> None:
    logs_only = PlannedSlice("", GROUP, "20260101000000001", None, (LOGS[0][4:], LOGS[1][4:]))

    assert read_compaction_plan(CompactionPlanFile((logs_only,)).encode()).slices == (logs_only,)


def test_replacecommit_that_is_no_clustering_has_no_plan() -> None:
    content = encode_record(REQUESTED_REPLACE, {"operationType": "INSERT_OVERWRITE"})

    assert read_clustering_plan(content) is None


@pytest.mark.parametrize(
    ("planted", "error"),
    [
        ({"partitionPath": "../../etc"}, "strange partition"),
        ({"partitionPath": ".hoodie"}, "strange partition"),
        ({"dataFilePath": "hoodie.properties"}, "another group"),
        ({"fileId": "other"}, "another group"),
        ({"dataFilePath": None, "deltaFilePaths": []}, "without files"),
    ],
)
def test_planted_plan_reaches_nothing_outside_its_file_group(
    planted: dict[str, object], error: str
) -> None:
    operation = {
        "baseInstantTime": "20260101000000000",
        "deltaFilePaths": [LOGS[0]],
        "dataFilePath": BASE,
        "fileId": GROUP,
        "partitionPath": "p=1",
        **planted,
    }
    content = encode_record(COMPACTION_PLAN, {"operations": [operation]})

    with pytest.raises(MalformedTable, match=error):
        read_compaction_plan(content)


def test_bootstrap_base_is_refused_by_name() -> None:
    operation = {"fileId": GROUP, "dataFilePath": BASE, "bootstrapFilePath": "s3://old/file"}
    content = encode_record(
        COMPACTION_PLAN, {"operations": [{**operation, "baseInstantTime": "1"}]}
    )

    with pytest.raises(UnsupportedTable, match="bootstrap"):
        read_compaction_plan(content)
