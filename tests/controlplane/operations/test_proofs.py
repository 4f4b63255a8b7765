"""Each kind of operation proves its own effect from storage: once somebody tampers with the effect,
the proof is gone, although timeline, mirror and worker said before that it was done.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from django.contrib.auth.models import User

from controlplane.mirror.storage import storage_of
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_request_replay, do_request_write, do_start_sink
from controlplane.operations.kinds.kind import kinds
from controlplane.operations.models import Operation
from controlplane.operations.queries import operation_checks
from controlplane.operations.table_service_effects import CHECKS
from controlplane.operations.table_service_proof import service_proof
from controlplane.operations.verification import rollback_proof
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.controlplane.left_out import leave_out
from tests.controlplane.service_jobs import ask, ask_rollback, work
from tests.controlplane.sink_jobs import OPTIONS
from tests.support.sinks import SINK, TOPIC, commit_offsets, stopped_state
from workers.files.log_block import ParquetData, encode_parquet_block
from workers.files.log_file import read_log_file
from workers.markers.marker import markers_directory
from workers.options.write_options import write_options
from workers.sink.replays import DeadLetterId, Replay, claim_letters, store_end
from workers.sink.state_file import TransactionSnapshot, put_state
from workers.table_services import registry
from workers.table_services.service import ServiceRequest
from workers.tasks import rollback

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
BERGEN = {"id": "2", "ts": 2, "city": "Bergen"}
Undo = Callable[[Lake, Operation], None]


def run(lake: Lake, service: str, **given: str) -> None:
    request = ServiceRequest(by="x", parameters=given)
    registry.get_service(service).run(lake.table, request, write_options({}))


def folder(lake: Lake) -> Path:
    return Path(lake.row.location)


def drop(pattern: str) -> Undo:
    """Somebody deletes the newest file of this pattern; `{instant}` is the operation's own."""

    def tamper(lake: Lake, operation: Operation) -> None:
        named = pattern.format(instant=operation.instant)
        files = sorted(folder(lake).rglob(named))
        assert files, named
        files[-1].unlink()

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


def markers_back(lake: Lake, operation: Operation) -> None:
    lake.table.storage.put(f"{operation.plan['items'][0]['what']}/MARKERS0", b"")


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
    ("rollback_several", "an instant is there again", instant_back),
    ("rollback_several", "a file is there again", put_back("delete")),
    ("repair", "a file is there again", put_back("delete")),
    ("repair", "Hudi's lock is there again, as old as it was", lock_back),
    ("delete_markers", "they are there again", markers_back),
    ("delete", "its log file is deleted", drop(".*_{instant}.log.*")),
    ("insert_overwrite", "its rows are deleted", drop("*{instant}*")),
    ("insert_overwrite_table", "its file on the timeline is deleted", drop("{instant}_*.replace*")),
]


@pytest.mark.sampled(every=3)
@pytest.mark.usefixtures("working")
@pytest.mark.parametrize(
    ("service", "tamper"),
    [pytest.param(one, undo, id=f"{one}: {what}") for one, what, undo in STORIES],
)
def test_service_is_proved_until_its_effect_is_tampered_with(
    service: str, tamper: Undo, lake: Lake, admin: User, rows_file: str
) -> None:
    operation = work(requested(lake, service, admin, rows_file))
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


def requested(lake: Lake, service: str, by: User, rows_file: str) -> Operation:
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
    if service == "delete_markers":
        lake.table.storage.put(f"{markers_directory(newest)}/MARKERS0", b"")
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
        "rollback_several": {"instants": newest},
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
    assert set(CHECKS) == set(registry.list_service_names())


def proved(operation: Operation) -> dict[str, bool | None]:
    return {one.name: one.is_proved for one in operation_checks(operation.pk)}


def cut(lake: Lake, at: str) -> None:
    written = next(folder(lake).rglob(f"*_{at}.*"))
    written.write_bytes(written.read_bytes()[:-7])


def blot(lake: Lake, at: str) -> None:
    """As long as it was, and no longer readable."""
    written = next(folder(lake).rglob(f"*_{at}.*"))
    content = written.read_bytes()
    middle = len(content) // 2
    written.write_bytes(content[:middle] + bytes(64) + content[middle + 64 :])


def thin_out(lake: Lake, at: str) -> None:
    """The log of another write of as many bytes, with a row less."""
    written = next(folder(lake).rglob(f"*_{at}.*"))
    whole = written.read_bytes()
    blocks = [
        encode_parquet_block(
            block.table().slice(1), instant=block.instant, avro_schema=json.loads(block.avro_schema)
        )
        for block in read_log_file(lake.table.storage, str(written.relative_to(folder(lake))))
        if isinstance(block, ParquetData)
    ]
    content = b"".join(blocks)
    padding = len(whole) - len(content)
    assert padding >= 0, (len(whole), len(content))
    written.write_bytes(content + bytes(padding))


WRITES: list[tuple[str, Callable[[Lake, str], None], dict[str, bool | None]]] = [
    (
        "its commit is deleted",
        lambda lake, at: drop(f"{at}_*.deltacommit")(lake, Operation(instant=at)),
        {"timeline": False},
    ),
    (
        "a file is deleted",
        lambda lake, at: drop(f"*_{at}.*")(lake, Operation(instant=at)),
        {"timeline": True, "files": False, "rows": True},
    ),
    ("a file is cut short", cut, {"timeline": True, "files": False, "rows": False}),
    ("a file is overwritten", blot, {"timeline": True, "files": True, "rows": False}),
    ("a file has fewer rows", thin_out, {"timeline": True, "files": True, "rows": False}),
]


@pytest.mark.parametrize(
    ("tamper", "left"), [pytest.param(how, left, id=what) for what, how, left in WRITES]
)
def test_write_is_proved_until_its_commit_or_a_file_is_tampered_with(
    tamper: Callable[[Lake, str], None], left: dict[str, bool], lake: Lake, operator: User
) -> None:
    source = {"kind": "csv", "path": "/data/weather.csv"}
    operation = do_request_write(table=lake.row, parameters={"source": source}, by=operator)
    instant = lake.commit(OSLO, BERGEN, operation_id=str(operation.pk))
    Operation.objects.filter(pk=operation.pk).update(state="succeeded", instant=instant)
    assert proved(operation) == {"timeline": True, "files": True, "rows": True}

    tamper(lake, instant)

    assert proved(operation) == left


def test_write_whose_files_a_clean_took_since_says_so(lake: Lake, operator: User) -> None:
    source = {"kind": "csv", "path": "/data/weather.csv"}
    operation = do_request_write(table=lake.row, parameters={"source": source}, by=operator)
    lake.commit(OSLO, operation_id=str(operation.pk))
    for ts in (11, 12, 13):
        run(lake, "compaction")
        lake.commit(OSLO | {"ts": ts})
    run(lake, "clean", **{"hoodie.clean.commits.retained": "1"})

    checks = {one.name: one for one in operation_checks(operation.pk)}

    assert "rows" not in checks
    assert checks["files"].is_proved
    assert "later services have taken 1; none is left" in checks["files"].words


def test_somebody_elses_commit_does_not_prove_a_write(lake: Lake, operator: User) -> None:
    source = {"kind": "csv", "path": "/data/weather.csv"}
    operation = do_request_write(table=lake.row, parameters={"source": source}, by=operator)
    instant = lake.commit(OSLO)
    Operation.objects.filter(pk=operation.pk).update(state="succeeded", instant=instant)

    assert proved(operation) == {"timeline": False}


def test_replay_is_proved_once_its_letters_are_sent_and_the_table_has_read_over_them(
    lake: Lake, admin: User
) -> None:
    do_start_sink(lake.row, OPTIONS, by=admin)
    instant = leave_out(lake.row)
    operation = do_request_replay(lake.row, SINK, by=admin, instant=instant, reason="mended")
    assert proved(operation) == {"letters": False, "read": False}
    claimed = Replay(1, str(operation.pk), "ada", 1, (DeadLetterId(TOPIC, 0, 9),), ((0, 10),))
    storage = storage_of(lake.row)

    assert claim_letters(storage, SINK, claimed)
    assert proved(operation) == {"letters": False, "read": False}
    store_end(storage, SINK, claimed, is_sent=True, until=((0, 12),))
    assert proved(operation) == {"letters": True, "read": None}, "the sink has to bring them"
    newest = commit_offsets(lake.row.location, "0=12")
    assert proved(operation) == {"letters": True, "read": True}

    [commit] = folder(lake).rglob(f"{newest}_*.deltacommit")
    commit.unlink()
    assert proved(operation) == {"letters": True, "read": None}
    [marked] = folder(lake).rglob("replays/*.end")
    marked.unlink()
    assert proved(operation) == {"letters": False, "read": False}


def test_sink_is_proved_until_the_table_lacks_what_it_reported(lake: Lake, admin: User) -> None:
    operation = do_start_sink(lake.row, OPTIONS, by=admin)
    first = commit_offsets(lake.row.location, "0=90")
    newest = commit_offsets(lake.row.location, "0=100")
    shown = (
        TransactionSnapshot(newest, "committed", 1, 2),
        TransactionSnapshot(first, "committed", 1, 2),
    )
    state = replace(stopped_state(), transactions=shown)
    put_state(
        storage_of(lake.row),
        replace(state, participants=(replace(state.participants[0], partition=0),)),
    )
    assert proved(operation) == {"offsets": True, "commits": True}

    [commit] = folder(lake).rglob(f"{newest}_*.deltacommit")
    commit.unlink()

    assert proved(operation) == {"offsets": False, "commits": False}


def test_every_kind_of_operation_has_a_proof_of_its_own() -> None:
    proofs = [kind.checks for kind in kinds().values()]

    assert len(set(proofs)) == len(kinds())
    assert all(kind.titles for kind in kinds().values())
