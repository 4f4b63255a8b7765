"""Options that a table keeps from its last file apply to plans, overwrites and schedules."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.contrib.auth.models import User

from controlplane.operations.ask import Requester
from controlplane.operations.models import Operation
from controlplane.operations.scheduled.actions import do_make_schedule
from controlplane.operations.scheduled.turns import run_due_schedules
from controlplane.operations.scheduled.wishes import ScheduleWish
from controlplane.tables.models import Table
from tests.controlplane.loading.entry_points import (
    SLUG,
    TABLES,
    FileLoad,
    Node,
    Refused,
    delete_by_rest,
    overwrite_by_rest,
)
from workers.lakehouse import open_table

_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "price": pa.float64()}
SCHEMA = pa.schema(_TYPES)
KEPT = {"delimiter": ";", "decimal_comma": "true"}
WORDS = {"reason": "test", "table_name": SLUG}
OPERATIONS = f"{TABLES}{SLUG}/operations/"


@pytest.fixture
def file(node: Node) -> Path:
    """A file that only the options kept with the table read."""
    file = node.drop / "day.csv"
    file.write_text("id;price\na;1,5\nb;1.000,25\n")
    node.create(FileLoad(file, table=SCHEMA))
    Table.objects.update(load_options=KEPT)
    return file


def read(node: Node) -> list[dict[str, Any]]:
    rows = open_table(str(node.location)).read(columns=["id", "price"]).to_pylist()
    return sorted(rows, key=lambda row: str(row["id"]))


def test_plan_of_a_write_and_the_write_use_kept_options(file: Path, node: Node) -> None:
    wish = {
        "source": {"kind": "csv", "path": str(file)},
        "operation": "insert_overwrite_table",
    }
    plan = node.post(f"{OPERATIONS}plan/", wish)
    answer = node.post(OPERATIONS, {**wish, **WORDS, "plan_hash": plan["plan_hash"]})

    job = Operation.objects.get(pk=answer["row"]["id"]).parameters["job"]
    assert job["parameters"] == {"path": str(file), **KEPT}
    assert plan["summary"].endswith("in with 2 rows")


def test_plan_of_a_service_and_its_run_use_kept_options(file: Path, node: Node) -> None:
    overwrite_by_rest(FileLoad(file, table=SCHEMA), node)
    assert read(node) == [{"id": "a", "price": 1.5}, {"id": "b", "price": 1000.25}]

    delete_by_rest(FileLoad(file, table=SCHEMA), node)
    assert read(node) == []


def test_plan_binds_the_options_of_the_load(file: Path, node: Node) -> None:
    wish = {
        "source": {"kind": "csv", "path": str(file)},
        "operation": "insert_overwrite_table",
    }
    plan = node.post(f"{OPERATIONS}plan/", wish)

    changed = {**wish, "source": {**wish["source"], "names": "clean"}}  # type: ignore[dict-item]
    with pytest.raises(Refused, match="changed"):
        node.post(OPERATIONS, {**changed, **WORDS, "plan_hash": plan["plan_hash"]})


def test_overwrite_keeps_its_options_for_the_next_file(file: Path, node: Node) -> None:
    Table.objects.update(load_options={})

    overwrite_by_rest(FileLoad(file, KEPT, SCHEMA), node)

    assert Table.objects.get().load_options == KEPT


def test_made_key_of_a_csv_is_not_asked_of_other_files(file: Path, node: Node) -> None:
    Table.objects.update(load_options={"key": "id", "key_from": "price"})
    (node.drop / "day.jsonl").write_text('{"id": "a", "price": 1.5}\n')
    body = {"source": {"kind": "json", "path": f"{node.drop}/day.jsonl"}}

    assert node.post(f"{TABLES}{SLUG}/sources/preview/", body)["problem"] == ""


def test_schedule_uses_kept_options_and_keeps_none_of_its_own(
    file: Path, node: Node, admin: User
) -> None:
    source = {"kind": "csv", "path": str(file), "names": "clean"}
    wish = ScheduleWish(name="daily", kind="write", parameters={"source": source}, every_s=3600)
    schedule = do_make_schedule(Table.objects.get(), wish, owner=admin, by=Requester.person(admin))
    assert schedule.next_due_at is not None

    run_due_schedules(now=schedule.next_due_at + timedelta(seconds=1))

    job = Operation.objects.get().parameters["job"]
    assert job["source"] == {**source, **KEPT}
    assert Table.objects.get().load_options == KEPT


def test_schedule_of_a_folder_may_begin_empty(node: Node, admin: User) -> None:
    folder = node.drop / "inbox"
    folder.mkdir()
    node.create(FileLoad(folder, table=SCHEMA))
    source = {"kind": "csv", "path": f"{folder}/*.csv"}
    wish = ScheduleWish(name="daily", kind="write", parameters={"source": source}, every_s=3600)

    schedule = do_make_schedule(Table.objects.get(), wish, owner=admin, by=Requester.person(admin))

    assert schedule.parameters["source"] == source
