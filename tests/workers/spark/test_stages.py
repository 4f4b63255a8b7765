"""How Spark's stages stand, as drivers report it: of a Connect server, of a Spark of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.classic_environment import classic_environment
from tests.support.clocks import ManualClock
from workers.ports import system_ports
from workers.reporting import RecordingReporter, ReportState
from workers.spark.job_names import job_named
from workers.spark.stage_board import STAGES_MAX, StageBoard
from workers.spark.stage_reports import REPORT_EVERY_S, StageReports

CLASSIC = """
import json, time
from workers.ports import system_ports
from workers.reporting import RecordingReporter
from workers.spark.session import classic_session
from workers.spark.stage_reports import StageReports

def slow(batches):
    for batch in batches:
        time.sleep(2.5)
        yield batch

spark, heard = classic_session(), RecordingReporter()
with StageReports("7", heard, system_ports()).listening(spark):
    spark.range(0, 12, 1, 12).mapInArrow(slow, "id long").collect()
print("HEARD " + json.dumps([report.to_message() for report in heard.reports]))
spark.stop()
"""


@dataclass
class Stage:
    """As PySpark hands it to a progress handler."""

    stage_id: int
    num_tasks: int = 4
    num_completed_tasks: int = 0
    num_bytes_read: int = 0
    done: bool = False


def test_the_newest_stages_are_kept_and_running_tasks_are_those_of_one_stage() -> None:
    board = StageBoard(ManualClock())
    for number in range(STAGES_MAX + 3):
        board.note_connect([Stage(number, num_completed_tasks=4, done=True)], 0, "", is_over=True)

    board.note_connect([Stage(90, num_completed_tasks=1, num_bytes_read=7)], 3, "", is_over=False)
    kept = board.stages()
    board.note_connect([Stage(90), Stage(91)], 5, "", is_over=False)

    assert len(kept) == STAGES_MAX
    assert [stage.id for stage in kept[-2:]] == [STAGES_MAX + 2, 90]
    assert (kept[-1].running, kept[-1].bytes_read, kept[-1].failed) == (3, 7, None)
    assert [stage.running for stage in board.stages()[-2:]] == [None, None]


def test_stage_whose_job_is_over_has_ended_whatever_was_said_of_it() -> None:
    board = StageBoard(ManualClock())
    board.note_connect([Stage(1), Stage(2, num_completed_tasks=4)], 2, "a", is_over=False)
    board.note_connect([Stage(3)], 2, "b", is_over=False)

    board.note_connect([], 0, "a", is_over=True)

    assert [stage.state for stage in board.stages()] == ["ended", "done", "running"]


@pytest.mark.slow
@pytest.mark.spark
def test_stages_of_a_connect_server_are_reported_by_the_name_of_their_job(
    spark: SparkSession,
) -> None:
    def slow(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            time.sleep(2.5)
            yield batch

    heard = RecordingReporter()
    with StageReports("7", heard, system_ports()).listening(spark), job_named("write file groups"):
        spark.range(0, 3, 1, 3).mapInArrow(slow, "id long").collect()
    reported = [stage for report in heard.reports for stage in report.stages]

    assert {report.state for report in heard.reports} == {ReportState.PROGRESS}
    assert {stage.name for stage in reported} == {"write file groups"}
    assert reported[0].state == "running"
    # The server's last word may come before the last task is counted: then it has only ended.
    assert (reported[-1].state in {"done", "ended"}, reported[-1].tasks) == (True, 3)
    assert len(heard.reports) <= 2 + 10 / REPORT_EVERY_S


@pytest.mark.slow
@pytest.mark.spark
def test_stages_of_a_spark_of_its_own_are_asked_for() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CLASSIC],
        env=classic_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    [line] = [line for line in ran.stdout.splitlines() if line.startswith("HEARD ")]
    reports = json.loads(line.removeprefix("HEARD "))

    # The first may come before Spark has begun a task.
    running = next(one for report in reports for one in report["stages"] if one["running"])
    [ended] = reports[-1]["stages"]
    assert (running["state"], running["tasks"], running["failed"]) == ("running", 12, 0)
    assert running["name"] == "collect"
    assert ended["state"] in ("done", "ended")
