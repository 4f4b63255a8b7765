"""Each kind of operation proves its own effect from storage: once somebody tampers with the effect,
the proof is gone, although timeline, mirror and worker said before that it was done.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from controlplane.mirror.sync import sync_table
from controlplane.operations.models import Operation
from controlplane.operations.service_effects import CHECKS
from controlplane.operations.service_proof import service_proof
from controlplane.operations.verification import rollback_proof
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.controlplane.service_jobs import ask, ask_rollback, work
from workers.config import write_options
from workers.services import registry
from workers.services.service import ServiceRequest
from workers.tasks import rollback

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
BERGEN = {"id": "2", "ts": 2, "city": "Bergen"}
Undo = Callable[[Lake, Operation], None]


def run(lake: Lake, service: str, **given: str) -> None:
    request = ServiceRequest(by="x", parameters=given)
    registry.service(service).run(lake.table, request, write_options({}))


def folder(lake: Lake) -> Path:
    return Path(lake.row.location)


def drop(pattern: str) -> Undo:
    """Somebody deletes the newest file of this pattern; `{instant}` is the operation's own."""

    def tamper(lake: Lake, operation: Operation) -> None:
        named = pattern.format(instant=operation.instant)
        found = sorted(folder(lake).rglob(named))
        assert found, named
        found[-1].unlink()

    return tamper


def put_back(effect: str) -> Undo:
    """What the plan says to be gone is there again."""

    def tamper(lake: Lake, operation: Operation) -> None:
        item = next(one for one in operation.plan["items"] if one["effect"] == effect)
        path = folder(lake) / item["what"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"back")

    return tamper


def instant_back(lake: Lake, operation: Operation) -> None:
    item = next(one for one in operation.plan["items"] if one["effect"] in ("archive", "undo"))
    timeline = folder(lake) / ".hoodie" / "timeline"
    (timeline / f"{item['what']}_20300101000000000.deltacommit").write_bytes(b"back")


def savepoint_back(lake: Lake, operation: Operation) -> None:
    timeline = folder(lake) / ".hoodie" / "timeline"
    (timeline / f"{operation.instant}_20300101000000000.savepoint").write_bytes(b"back")


def lock_back(lake: Lake, _: Operation) -> None:
    left_file(lake, ".hoodie/lock")


def left_file(lake: Lake, path: str) -> None:
    """As a process that was killed long ago leaves it."""
    file = folder(lake) / path
    file.write_bytes(b"")
    os.utime(file, (0, 0))


STORIES: list[tuple[str, str, Undo]] = [
    ("savepoint", "its file is deleted", drop("{instant}_*.savepoint")),
    ("savepoint", "a file that it holds is deleted", drop(".*.log.*")),
    ("delete_savepoint", "it stands again", savepoint_back),
    ("compaction", "its file on the timeline is deleted", drop("{instant}_*.commit")),
    ("compaction", "its base file is deleted", drop("*_{instant}.parquet")),
    ("clustering", "its base file is deleted", drop("*_{instant}.parquet")),
    ("clean", "a file is there again", put_back("delete")),
    ("archive", "an instant is there again", instant_back),
    ("archive", "the history is deleted", drop("history/*.parquet")),
    ("restore", "an instant is there again", instant_back),
    ("restore", "a file is there again", put_back("delete")),
    ("repair", "a file is there again", put_back("delete")),
    ("repair", "Hudi's lock is there again, as old as it was", lock_back),
    ("delete", "its log file is deleted", drop(".*_{instant}.log.*")),
    ("insert_overwrite", "its rows are deleted", drop("*{instant}*")),
    ("insert_overwrite_table", "its file on the timeline is deleted", drop("{instant}_*.replace*")),
]


@pytest.mark.usefixtures("working")
@pytest.mark.parametrize(
    ("service", "tamper"),
    [pytest.param(one, undo, id=f"{one}: {what}") for one, what, undo in STORIES],
)
def test_service_is_proved_until_its_effect_is_tampered_with(
    service: str, tamper: Undo, lake: Lake, admin: User, rows_file: str
) -> None:
    operation = work(asked(lake, service, admin, rows_file))
    assert operation.state == "succeeded", operation.message
    proof = service_proof(operation)
    assert proof.is_proved, proof

    tamper(lake, operation)

    assert not service_proof(operation).is_proved


@pytest.fixture
def rows_file(tmp_path: Path, settings: object, monkeypatch: pytest.MonkeyPatch) -> str:
    """With one row, below a source root."""
    path = tmp_path / "rows.csv"
    path.write_text("id,ts,city\n7,9,Turku\n")
    settings.SLUICE_SOURCE_ROOTS = (str(tmp_path),)  # type: ignore[attr-defined]
    monkeypatch.setenv("SLUICE_SOURCE_ROOTS", str(tmp_path))
    return str(path)


def asked(lake: Lake, service: str, by: User, rows_file: str) -> Operation:
    for _ in range(3):
        lake.commit(OSLO, BERGEN)
    newest = lake.commit(OSLO | {"ts": 9})
    if service in ("delete_savepoint", "restore"):
        run(lake, "savepoint")
    if service == "restore":
        lake.commit(BERGEN | {"ts": 10})
    if service == "repair":
        left_file(lake, ".sluice-tmp-left")
        left_file(lake, ".hoodie/lock")
    if service == "clean":
        for _ in range(2):
            run(lake, "compaction")
            lake.commit(OSLO | {"ts": 11})
            lake.commit(OSLO | {"ts": 12})
    parameters = {
        "archive": {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"},
        "clean": {"hoodie.clean.commits.retained": "1"},
        "clustering": {"hoodie.clustering.plan.strategy.sort.columns": "city"},
        "delete": {"predicate": "city = 'Bergen'"},
        "delete_savepoint": {"instant": newest},
        "insert_overwrite": {"path": rows_file},
        "insert_overwrite_table": {"path": rows_file},
        "restore": {"instant": newest},
    }
    return ask(lake, service, by, parameters=parameters.get(service, {}))


def test_commit_that_shares_the_time_of_a_savepoint_does_not_prove_it(
    lake: Lake, operator: User
) -> None:
    lake.commit(OSLO)
    operation = ask(lake, "savepoint", operator)
    Operation.objects.filter(pk=operation.pk).update(state="succeeded")
    operation.refresh_from_db()
    sync_table(lake.row)

    proof = service_proof(operation)

    assert (proof.is_on_timeline, proof.is_proved) == (False, False)


@pytest.mark.parametrize("service", ["adopt", "upgrade"])
def test_properties_prove_what_only_sets_properties(synced: Table, service: str) -> None:
    plan = {"items": [{"what": "hoodie.table.name", "effect": "write", "detail": "trips"}]}
    operation = Operation.objects.create(table=synced, kind="service", service=service, plan=plan)
    assert service_proof(operation).is_proved

    properties = Path(synced.location) / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("name=trips", "name=other"))

    assert not service_proof(operation).is_proved


@pytest.mark.usefixtures("working")
@pytest.mark.parametrize("what", ["file", "instant"])
def test_rollback_is_proved_until_a_file_or_the_instant_is_there_again(
    what: str, lake: Lake, admin: User
) -> None:
    lake.commit(OSLO)
    target = lake.commit(BERGEN)
    operation = ask_rollback(lake, target, admin)
    assert not rollback_proof(lake.row, target, operation.plan).is_proved
    rollback.apply(args=[operation.parameters["job"]]).get()
    operation.refresh_from_db()
    assert operation.state == "succeeded", operation.message
    assert rollback_proof(lake.row, target, operation.plan).is_proved

    if what == "file":
        (folder(lake) / operation.plan["files"][0]["path"]).write_bytes(b"back")
    else:
        timeline = folder(lake) / ".hoodie" / "timeline"
        (timeline / f"{target}_20300101000000000.deltacommit").write_bytes(b"back")

    assert not rollback_proof(lake.row, target, operation.plan).is_proved


def test_every_service_has_a_proof_of_its_own() -> None:
    assert set(CHECKS) == set(registry.service_names())
