"""The shell's way to the mirror: register, list, sync, rebuild."""

from __future__ import annotations

import json
import os
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from controlplane.audit.models import AuditEvent
from controlplane.mirror.models import InstantRecord
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.support.metadata_tables import keep_files
from workers.lakehouse import LakehouseTable, open_table


def run(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def test_a_table_is_registered_once(db: None, root: Path) -> None:
    assert "registered rides" in run("table", "register", f"{root}/rides", "--slug", "rides")
    assert run("table", "list") == f"rides\tdefault\t{root}/rides\n"

    with pytest.raises(CommandError, match="slug is already used"):
        run("table", "register", f"{root}/other", "--slug", "rides")


def test_sync_says_what_changed_and_rebuild_brings_all_of_it_back(lake: Lake) -> None:
    lake.commit({"id": "1", "ts": 1, "city": "Oslo"})

    assert "instants, locks changed" in run("sync")
    assert run("sync", "trips") == "trips: up to date\n"
    before = InstantRecord.objects.count()
    assert "instants, locks changed" in run("sync", "trips", "--rebuild")
    assert InstantRecord.objects.count() == before


def test_an_unknown_table_is_named(db: None) -> None:
    with pytest.raises(CommandError, match="nowhere"):
        run("sync", "nowhere")


OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
BERGEN = {"id": "2", "ts": 1, "city": "Bergen"}


def cities(lake: Lake) -> list[str]:
    return sorted(LakehouseTable(lake.table).read().column("city").to_pylist())


def test_what_takes_nothing_away_runs_at_once_and_dry_when_asked(lake: Lake) -> None:
    lake.commit(OSLO)
    lake.commit(OSLO)

    dry = run("table", "compact", "trips", "--dry-run")
    done = run("table", "compact", "trips", "--reason", "tidy up")

    assert "nothing was changed" in dry
    assert "merge 1 logs into 1 file groups" in done
    assert "merged 1 logs" in done
    assert "nothing to do" in run("table", "compact", "trips")
    results = AuditEvent.objects.filter(what="service.compaction").values_list("result", "reason")
    assert list(results.order_by("id")) == [("requested", "tidy up"), ("succeeded", "tidy up")]


def test_a_deletion_is_shown_first_and_carried_out_by_its_hash_only(lake: Lake) -> None:
    lake.commit(OSLO, BERGEN)
    shown = run("table", "delete", "trips", "city = 'Oslo'")
    plan_hash = shown.partition("--plan-hash ")[2].split()[0]
    assert "1 rows of" in shown
    assert cities(lake) == ["Bergen", "Oslo"]

    with pytest.raises(CommandError, match="changed since"):
        run("table", "delete", "trips", "city = 'Oslo'", "--plan-hash", "0" * 16)
    done = run("table", "delete", "trips", "city = 'Oslo'", "--plan-hash", plan_hash)

    assert "deleted 1 rows" in done
    assert cities(lake) == ["Bergen"]


def test_keys_are_deleted_from_a_list_and_from_a_file(lake: Lake, tmp_path: Path) -> None:
    lake.commit(OSLO, BERGEN, OSLO | {"id": "3"})
    (tmp_path / "keys.csv").write_text("id\n2\n")

    shown = run("table", "delete", "trips", "--keys", '["1"]')
    run("table", "delete", "trips", "--keys", '["1"]', "--yes")
    run("table", "delete", "trips", "--path", str(tmp_path / "keys.csv"), "--yes")

    assert "nothing was changed" in shown
    assert cities(lake) == ["Oslo"]


def test_a_table_is_overwritten_from_a_file_once_it_was_confirmed(
    lake: Lake, tmp_path: Path
) -> None:
    lake.commit(OSLO, BERGEN)
    path = str(tmp_path / "new.csv")
    Path(path).write_text("id,ts,city\n7,1,Turku\n")
    written = ("write", path, "--table", lake.row.location, "--operation", "insert_overwrite_table")

    shown = run("table", "insert-overwrite-table", "trips", path)
    same = run(*written)
    kept = cities(lake)
    run("table", "insert-overwrite", "trips", path, "--yes", "--reason", "a new start")

    assert shown == same
    assert "replace the whole table: out with 2 file groups, in with 1 row" in shown
    assert kept == ["Bergen", "Oslo"]
    assert cities(lake) == ["Turku"]


def test_a_rollback_is_shown_first_and_done_on_a_word(lake: Lake) -> None:
    lake.commit(OSLO)
    newest = lake.commit(BERGEN)

    shown = run("rollback", "trips", newest)
    kept = cities(lake)
    done = run("table", "rollback", "trips", newest, "--yes", "--reason", "wrong file")

    assert "nothing was changed" in shown
    assert kept == ["Bergen", "Oslo"]
    assert "rolled back by" in done
    assert cities(lake) == ["Oslo"]


def test_savepoints_are_made_seen_and_deleted(lake: Lake) -> None:
    kept = lake.commit(OSLO)

    run("table", "savepoint", "trips", "--comment", "before the move")
    seen = run("table", "services", "trips")
    shown = run("table", "delete-savepoint", "trips", kept)
    gone = run("table", "delete-savepoint", "trips", kept, "--yes")

    assert f"savepoint {kept}" in seen
    assert "before the move" in seen
    assert "nothing was changed" in shown
    assert "deleted the savepoint" in gone
    assert f"savepoint {kept}" not in run("table", "services", "trips")


def test_a_table_is_looked_at_without_a_node(lake: Lake) -> None:
    lake.commit(OSLO)

    groups = run("table", "file-groups", "trips")
    schema = run("table", "schema", "trips")

    assert "00000" in groups
    assert "added    city" in schema


def test_metadata_table_is_held_against_storage(lake: Lake) -> None:
    lake.commit(OSLO)
    with pytest.raises(CommandError, match="no metadata table"):
        run("table", "validate", "trips")
    location = Path(lake.row.location)
    [file] = location.glob("*.parquet")
    keep_files(location, {"": {file.name: file.stat().st_size}})
    assert "compared 1 files in 1 partitions: the metadata table matches storage" in run(
        "table", "validate", "trips"
    )
    file.unlink()
    with pytest.raises(CommandError, match="files=1 differing=1"):
        run("table", "validate", "trips")


def test_rows_are_shown_as_far_as_they_are_asked_for(lake: Lake) -> None:
    lake.commit(OSLO, BERGEN)

    said = run("table", "show", "trips", "--where", "city = 'Oslo'", "--columns", "city, id")
    plan = run("table", "show", "trips", "--where", "id = '1'", "--explain")

    assert [json.loads(line) for line in said.splitlines()] == [{"city": "Oslo", "id": "1"}]
    assert len(run("table", "show", "trips", "--limit", "1").splitlines()) == 1
    assert "filtered on id" in plan
    assert "bytes to read" in plan
    with pytest.raises(CommandError, match="predicate names no column"):
        run("table", "show", "trips", "--where", "no = 1")


@pytest.mark.parametrize(
    "words",
    [
        ("table", "compact", "nowhere"),
        ("table", "compact", "trips", "--set", "novalue"),
        ("table", "compact", "trips", "--set", "hoodie.unknown=1"),
        ("table", "delete", "trips", "town = 'Oslo'", "--yes"),
        ("table", "rollback", "trips", "yesterday"),
    ],
)
def test_what_cannot_be_meant_is_said(lake: Lake, words: tuple[str, ...]) -> None:
    lake.commit(OSLO)

    with pytest.raises(CommandError):
        run(*words)


@pytest.mark.parametrize(
    "action",
    ["compact", "cluster", "clean", "archive", "savepoint", "delete-savepoint", "restore",
     "rollback", "delete", "delete-partition",
     "insert-overwrite", "insert-overwrite-table", "file-groups", "schema", "services",
     "validate"],
)  # fmt: skip
def test_every_action_explains_itself(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        call_command("table", action, "--help")

    assert ended.value.code == 0
    assert "usage" in capsys.readouterr().out


def test_statement_changes_what_it_names_and_a_delete_is_shown_first(
    lake: Lake, root: Path
) -> None:
    lake.commit(OSLO, BERGEN)

    said = run("sql", "UPDATE trips SET city = upper(city) WHERE id = '1'")
    shown = run("sql", "DELETE FROM trips AS t WHERE t.city = 'OSLO'")

    assert said.startswith("committed ")
    assert "1 rows of" in shown
    assert cities(lake) == ["Bergen", "OSLO"]
    assert "deleted 1 rows" in run("sql", "DELETE FROM trips WHERE city = 'OSLO'", "--yes")
    assert cities(lake) == ["Bergen"]


def test_query_is_answered_and_a_table_is_altered(lake: Lake) -> None:
    lake.commit(OSLO, BERGEN)

    altered = run("sql", "ALTER TABLE trips ADD COLUMN note STRING")
    answer = run("sql", "SELECT id, city, note FROM trips ORDER BY id DESC")

    assert altered.startswith("committed ")
    assert [json.loads(line) for line in answer.splitlines()] == [
        {"id": "2", "city": "Bergen", "note": None},
        {"id": "1", "city": "Oslo", "note": None},
    ]


def test_statement_makes_a_table_and_registers_it(lake: Lake, root: Path) -> None:
    lake.commit(OSLO)

    made = run(
        "sql",
        "CREATE TABLE towns (id STRING PRIMARY KEY, city STRING)",
        "--table",
        f"towns={root}/towns",
    )
    run("sql", "INSERT INTO towns SELECT id, city FROM trips")

    assert "registered as towns" in made
    assert open_table(root / "towns").read().to_pylist() == [{"id": "1", "city": "Oslo"}]
    with pytest.raises(CommandError, match="table nowhere not found"):
        run("sql", "INSERT INTO towns SELECT id, city FROM nowhere")
    with pytest.raises(CommandError, match="outside the configured table roots"):
        run("sql", "CREATE TABLE x (id INT PRIMARY KEY) LOCATION '/elsewhere/x'")


def test_repair_is_shown_first_and_leaves_a_trace(lake: Lake, root: Path) -> None:
    lake.commit(OSLO)
    lock = Path(Table.objects.get(slug="trips").location, ".hoodie/lock")
    lock.write_bytes(b"")
    os.utime(lock, (0, 0))

    assert "nothing was changed" in run("table", "repair", "trips")
    assert "nothing was changed" in run("table", "repair", "trips", "--yes", "--dry-run")
    assert lock.exists()
    assert "deleted 1 files" in run("table", "repair", "trips", "--yes", "--reason", "left")

    assert not lock.exists()
    [done] = AuditEvent.objects.filter(what="service.repair", result="succeeded")
    operation = Operation.objects.get(service="repair")
    assert (done.reason, done.details["operation"]) == ("left", str(operation.pk))
    assert [item["what"] for item in operation.plan["items"]] == [str(lock)]
    assert "nothing to do" in run("table", "repair", "trips")
