"""From a job's source to what is read: files below the roots, kinds of input modules, no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from workers.demo.streams import DemoStream
from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable, create_table
from workers.spark import input_modules
from workers.spark.input_modules import INPUTS_VARIABLE
from workers.spark.inputs import open_source
from workers.spark.inputs.files import FileSource
from workers.spark.inputs.source import JobSource, Source, Surroundings
from workers.spark.process import driver_environment
from workers.storage.roots import source_under_root
from workers.timeline.extra_metadata import Position

STREAM = {"kind": "demo_stream", "stream": "click"}


@pytest.fixture
def table(tmp_path: Path) -> LakehouseTable:
    schema = pa.schema({"id": pa.string()})
    return create_table(tmp_path / "t", name="t", schema=schema, record_key=["id"])


def opened(table: LakehouseTable, source: dict[str, Any], modules: str) -> Source:
    environment = {"SLUICE_SOURCE_ROOTS": "/", INPUTS_VARIABLE: modules}
    return open_source(
        source,
        table=table.table,
        writer="w",
        environment=environment,
        scratch=Path(table.location) / "scratch",
    )


def test_kind_of_a_module_is_opened_where_the_environment_names_the_module(
    table: LakehouseTable,
) -> None:
    assert isinstance(opened(table, STREAM, "workers.demo.inputs"), DemoStream)

    with pytest.raises(
        InvalidInput,
        match=r"kind is unknown.*known=\['arrow', 'csv', 'json', 'kafka', 'parquet', 'postgresql', "
        r"'sql'\]",
    ):
        opened(table, STREAM, "")


def test_file_needs_no_module_and_loads_none(table: LakehouseTable, tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("id\n1\n")

    source = opened(table, {"kind": "csv", "path": str(tmp_path / "w.csv")}, "there.is.none")

    assert isinstance(source, FileSource)


def test_module_that_is_not_there_is_named(table: LakehouseTable) -> None:
    with pytest.raises(InvalidInput, match=f"module=there.is.none variable={INPUTS_VARIABLE}"):
        opened(table, STREAM, "there.is.none")


def test_driver_is_given_the_modules_of_its_launcher_and_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(input_modules, "_added", [])
    for name in ("ours.inputs", "ours.inputs", "theirs"):
        input_modules.add_input_module(name)

    alone = driver_environment({}, "42")
    beside = driver_environment({INPUTS_VARIABLE: "theirs,more"}, "42")

    assert alone[INPUTS_VARIABLE] == "ours.inputs,theirs"
    assert beside[INPUTS_VARIABLE] == "theirs,more,ours.inputs"


@pytest.mark.slow
def test_engine_loads_nothing_of_the_demo() -> None:
    program = (
        "import sys, workers.spark.runner, workers.tasks, workers.lakehouse\n"
        "import workers.spark.inputs, workers.sink.kafka.broker\n"
        "print([name for name in sys.modules if name.startswith('workers.demo')])"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout == "[]\n"


def test_position_survives_commit_metadata_and_foreign_text_is_none() -> None:
    assert Position.decode(Position(3, 17).encode()) == Position(3, 17)
    for text in ("", "null", "[]", '{"run": 1}', '{"run": "x", "round": 1}'):
        assert Position.decode(text) is None


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "csv", "path": "weather.csv"},
        {"kind": "csv", "path": "/w.csv", "key": "id"},
        {"kind": "csv", "path": "/w.csv", "header": "false"},
        {"kind": "csv"},
        {"kind": "parquet", "path": "w.parquet"},
        {"kind": "parquet", "path": "/w.parquet", "key": "id"},
    ],
)
def test_file_source_with_a_wrong_parameter_is_refused(
    source: dict[str, Any], table: LakehouseTable
) -> None:
    around = Surroundings(table.table, "w", {"SLUICE_SOURCE_ROOTS": "/"}, Path("/nowhere"))
    with pytest.raises(InvalidInput):
        FileSource.from_job(JobSource(source), around)


def test_file_outside_the_roots_is_not_read_by_whatever_path(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "w.csv").write_text("id\n1\n")
    (inside / "link.csv").symlink_to(outside / "w.csv")
    environment = {"SLUICE_SOURCE_ROOTS": str(inside)}

    assert source_under_root(str(inside / "w.csv"), environment) == inside / "w.csv"
    for path in (outside / "w.csv", inside / "link.csv", inside / ".." / "out" / "w.csv"):
        with pytest.raises(InvalidInput, match="outside the configured roots"):
            source_under_root(str(path), environment)
    with pytest.raises(InvalidInput):
        source_under_root(str(inside / "w.csv"), {})
