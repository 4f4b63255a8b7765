"""No file source reads what lies in a table: rows are read by row access alone, with its masks."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from bench.support.s3_server import BUCKET
from controlplane.accounts.models import Grant
from controlplane.errors import InvalidRequest
from controlplane.operations.actions import (
    do_give_leave,
    do_request_again,
    do_request_write,
    do_start_sink,
    plan_service,
)
from controlplane.operations.ask import Requester
from controlplane.operations.models import Operation, Schedule
from controlplane.operations.requesting import Given
from controlplane.operations.scheduled.actions import do_make_schedule
from controlplane.operations.scheduled.turns import run_due_schedules
from controlplane.operations.scheduled.wishes import ScheduleWish
from controlplane.operations.source_places import checked_source
from controlplane.operations.source_previews import preview_source
from controlplane.operations.table_creation.suggesting import suggest_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import DEFAULT_NAMESPACE, MaskedColumn, RowGrant, Table
from tests.controlplane.conftest import SCHEMA
from tests.controlplane.lake import Lake
from tests.controlplane.sink_jobs import OPTIONS
from tests.support.storages import use_bucket
from workers.errors import InvalidInput
from workers.lakehouse import create_table
from workers.spark.inputs import open_source
from workers.storage.opener import open_storage
from workers.storage.roots import rows_place_under_root

SECRET = {"id": "1", "ts": 1, "city": "a value that only row access shows"}
ROWS = "id,ts,city\n7,9,Turku\n"


@dataclass
class Thief:
    """An operator of the namespace, who may read the rows of `own` and not of the table `lake`."""

    user: User
    own: Table
    drop: Path
    victim: Lake

    @property
    def file(self) -> Path:
        """A base file of the table whose rows the thief may not read."""
        [file] = Path(self.victim.row.location).glob("**/*.parquet")
        return file


@pytest.fixture
def thief(lake: Lake, root: Path, admin: User, tmp_path: Path, settings: Settings) -> Thief:
    outcome = lake.commit(SECRET)
    assert outcome
    MaskedColumn.objects.create(table=lake.row, path="city")
    create_table(root / "own", name="own", schema=SCHEMA, record_key=["id"], ordering=["ts"])
    own = do_register_table(location=str(root / "own"), slug="own", name="Own", by=admin)
    user = User.objects.create_user("pia")
    Grant.objects.create(user=user, namespace=DEFAULT_NAMESPACE, role="operator")
    RowGrant.objects.create(user=user, right="rows", table=own)
    drop = tmp_path / "drop"
    drop.mkdir()
    (drop / "new.csv").write_text(ROWS)
    settings.SLUICE_SOURCE_ROOTS = (f"{DEFAULT_NAMESPACE}={drop}",)
    return Thief(user, own, drop, lake)


def plain(thief: Thief) -> str:
    return str(thief.file)


def dotted(thief: Thief) -> str:
    return f"{thief.drop}/../{thief.file.relative_to(thief.drop.parent)}"


def linked(thief: Thief) -> str:
    (thief.drop / "mine.parquet").symlink_to(thief.file)
    return f"{thief.drop}/mine.parquet"


def below_a_link(thief: Thief) -> str:
    (thief.drop / "mine").symlink_to(thief.file.parent)
    return f"{thief.drop}/mine/{thief.file.name}"


def the_table(thief: Thief) -> str:
    return thief.victim.row.location


def all_tables(thief: Thief) -> str:
    return str(Path(thief.victim.row.location).parent)


def above_all(thief: Thief) -> str:
    return str(thief.drop.parent)


def pattern(thief: Thief) -> str:
    return f"{thief.file.parent}/*.parquet"


def match_a_link(thief: Thief) -> str:
    (thief.drop / "mine.parquet").symlink_to(thief.file)
    return f"{thief.drop}/m*.parquet"


def link_a_folder(thief: Thief) -> str:
    (thief.drop / "mine").symlink_to(thief.file.parent)
    return f"{thief.drop}/mine/"


def pattern_in_the_drop(thief: Thief) -> str:
    """The name of a file that is there; Spark would read what it stands for."""
    folder = thief.drop / "*"
    folder.mkdir()
    (folder / "new.csv").write_text(ROWS)
    return f"{folder}/new.csv"


def address(thief: Thief) -> str:
    return f"file://{thief.file}"


def letters(thief: Thief) -> str:
    folder = Path(f"{thief.victim.row.location}-dead-letters")
    folder.mkdir()
    (folder / "letters.csv").write_text(ROWS)
    return f"{folder}/letters.csv"


def timeline(thief: Thief) -> str:
    return f"{thief.victim.row.location}/.hoodie/hoodie.properties"


PLACES = [
    plain, dotted, linked, below_a_link, the_table, all_tables, above_all, pattern,
    pattern_in_the_drop, address, letters, timeline, match_a_link, link_a_folder,
]  # fmt: skip


def kind_of(path: str) -> str:
    return "csv" if path.endswith(".csv") else "parquet"


@pytest.mark.parametrize("place", PLACES)
def test_no_request_has_a_file_of_a_table_read(
    place: Callable[[Thief], str], thief: Thief, admin: User
) -> None:
    """Neither by an operator with a role on both tables nor by an admin everywhere."""
    path = place(thief)
    source = {"kind": kind_of(path), "path": path}
    old = do_request_write(
        table=thief.own,
        parameters={"source": {"kind": "csv", "path": f"{thief.drop}/new.csv"}},
        by=thief.user,
    )
    Operation.objects.update(state="succeeded")
    old.refresh_from_db()
    schema_file = {"hoodie.sink.schema.source": "registry_file", "hoodie.sink.schema.file": path}
    asks: list[Callable[[User], object]] = [
        lambda by: do_request_write(table=thief.own, parameters={"source": source}, by=by),
        lambda by: preview_source(thief.own, source, by=by),
        lambda by: suggest_table(path, by=by),
        lambda by: plan_service(thief.own, "insert_overwrite", {"path": path}, by),
        lambda by: do_request_again(old, {"source": source}, Given(), by),
        lambda by: do_start_sink(thief.victim.row, {**OPTIONS, **schema_file}, by=by),
    ]

    for by in (thief.user, admin):
        for number, ask in enumerate(asks):
            if number == 3:
                by = admin  # An overwrite is an admin's.
            with pytest.raises(InvalidRequest, match="source"):
                ask(by)

    assert Operation.objects.count() == 1


def test_no_address_has_a_file_of_a_table_read(thief: Thief, client: Client, admin: User) -> None:
    source = {"kind": "parquet", "path": str(thief.file)}
    Grant.objects.create(user=thief.user, table=thief.own, role="admin")
    api = f"/api/v1/tables/{thief.own.slug}"
    page = f"/t/{thief.own.slug}"
    form = {"path": source["path"], "operation": "upsert", "deed": "preview"}
    form["idempotency_key"] = str(uuid4())
    schedule = {
        "name": "nightly", "kind": "write", "parameters": {"source": source}, "every_s": 3600
    }  # fmt: skip
    bodies: list[tuple[str, dict[str, Any]]] = [
        (f"{api}/operations/", {"source": source}),
        (f"{api}/operations/", {"source": source, "operation": "insert_overwrite"}),
        (f"{api}/operations/plan/", {"source": source, "operation": "insert_overwrite"}),
        (f"{api}/sources/preview/", {"source": source}),
        (f"{api}/services/insert_overwrite/plan/", {"parameters": {"path": source["path"]}}),
        (f"{api}/services/delete/plan/", {"parameters": {"path": source["path"]}}),
        (f"{api}/schedules/", schedule),
    ]

    client.force_login(thief.user)
    answers = [client.post(url, body, "application/json") for url, body in bodies]
    previewed = client.post(f"{page}/write?kind=parquet", form)
    planned = client.get(f"{page}/services/run/insert_overwrite", {"path": source["path"]})
    client.force_login(admin)
    question = {"path": source["path"]}
    suggested = client.post("/api/v1/new-tables/suggestion/", question, "application/json")
    suggested_page = client.get("/tables/create", question)

    assert [answer.status_code for answer in [*answers, suggested]] == [400] * (len(bodies) + 1)
    for answer in (*answers, suggested, previewed, planned, suggested_page):
        text = answer.content.decode()
        assert str(SECRET["city"]) not in text
        assert "read rows of tables by SQL" in text, text
    assert not Operation.objects.exists()
    assert not Schedule.objects.exists()


def test_files_of_a_namespace_are_loaded_by_its_operators(
    thief: Thief, operator: User, viewer: User, settings: Settings
) -> None:
    """A root without a namespace is for those whose role holds everywhere."""
    for name in ("hr", "none"):
        (thief.drop / name).mkdir()
        (thief.drop / name / "new.csv").write_text(ROWS)
    settings.SLUICE_SOURCE_ROOTS = (
        f"{DEFAULT_NAMESPACE}={thief.drop}", f"hr={thief.drop}/hr", f"{thief.drop}/none",
    )  # fmt: skip
    of_one_table = User.objects.create_user("gus")
    Grant.objects.create(user=of_one_table, table=thief.own, role="operator")
    Grant.objects.create(user=of_one_table, namespace="hr", role="viewer")

    def may_load(by: User) -> list[bool]:
        """From the root of the default namespace, from that of hr, and from that of none."""
        sources = [
            {"kind": "csv", "path": f"{thief.drop}/{name}"}
            for name in ("new.csv", "hr/new.csv", "none/new.csv")
        ]
        return [
            refusal(partial(preview_source, thief.own, source, by=by)) == "" for source in sources
        ]

    assert may_load(thief.user) == may_load(of_one_table) == [True, False, False]
    assert may_load(operator) == [True, True, True]
    assert may_load(viewer) == [False, False, False]
    assert refusal(lambda: checked_source(f"{thief.drop}/hr/new.csv", viewer)).replace(
        f"{thief.drop}/hr", "/nowhere"
    ) == refusal(lambda: checked_source("/nowhere/new.csv", viewer))


def refusal(ask: Callable[[], object]) -> str:
    try:
        ask()
    except InvalidRequest as error:
        return f"{error.message} {error.values}"
    return ""


def test_source_root_that_is_a_table_root_too_is_none(thief: Thief, settings: Settings) -> None:
    """The deepest root decides what a place is for."""
    root = Path(thief.victim.row.location).parent
    landing = root / "landing"
    landing.mkdir()
    for folder in (root, landing):
        (folder / "new.csv").write_text(ROWS)
    source = {"kind": "csv", "path": f"{root}/new.csv"}

    settings.SLUICE_SOURCE_ROOTS = (f"{DEFAULT_NAMESPACE}={root}",)
    with pytest.raises(InvalidRequest, match="read rows of tables by SQL"):
        preview_source(thief.own, source, by=thief.user)
    settings.SLUICE_SOURCE_ROOTS = (f"{DEFAULT_NAMESPACE}={landing}",)
    with pytest.raises(InvalidRequest, match="read rows of tables by SQL"):
        preview_source(thief.own, source, by=thief.user)
    source["path"] = f"{landing}/new.csv"
    assert preview_source(thief.own, source, by=thief.user).rows_sampled == 1


def steal_the_table(thief: Thief, admin: User) -> None:
    """It is registered where the file is, once the request was made."""
    thief.own.delete()
    Table.objects.create(slug="late", name="late", location=str(thief.drop))


def take_the_role(thief: Thief, admin: User) -> None:
    Grant.objects.filter(namespace="drops").delete()


def nothing(thief: Thief, admin: User) -> None:
    """Then it is begun."""


@pytest.fixture
def drop_of_others(thief: Thief, settings: Settings) -> None:
    """The source root belongs to a namespace that the tables are not in."""
    settings.SLUICE_SOURCE_ROOTS = (f"drops={thief.drop}",)
    Grant.objects.create(user=thief.user, namespace="drops", role="operator")


@pytest.mark.usefixtures("drop_of_others")
@pytest.mark.parametrize("change", [nothing, take_the_role, steal_the_table])
def test_right_to_a_file_is_asked_again_as_its_job_begins(
    change: Callable[[Thief, User], None], thief: Thief, admin: User
) -> None:
    source = {"kind": "csv", "path": f"{thief.drop}/new.csv"}
    queued = do_request_write(table=thief.victim.row, parameters={"source": source}, by=thief.user)

    change(thief, admin)

    assert do_give_leave(queued.pk) is (change is nothing)
    queued.refresh_from_db()
    if change is not nothing:
        assert queued.state == "refused"
        assert "may no longer read what it reads" in queued.message


@pytest.mark.usefixtures("drop_of_others")
def test_schedule_loads_nothing_once_its_owner_may_not(thief: Thief) -> None:
    source = {"kind": "csv", "path": f"{thief.drop}/new.csv"}
    wish = ScheduleWish(name="nightly", kind="write", parameters={"source": source}, every_s=3600)
    schedule = do_make_schedule(
        thief.victim.row, wish, owner=thief.user, by=Requester.person(thief.user)
    )
    take_the_role(thief, thief.user)
    Schedule.objects.filter(pk=schedule.pk).update(next_due_at=timezone.now())

    [run] = run_due_schedules()

    assert run.outcome == "not_run"
    assert "outside the configured roots" in run.words
    assert not Operation.objects.exists()


@pytest.mark.parametrize("place", PLACES)
def test_driver_opens_no_file_of_a_table(place: Callable[[Thief], str], thief: Thief) -> None:
    """Whatever the job says: its source roots may hold a table that is not registered."""
    path = place(thief)
    for table in Table.objects.all():
        table.delete()
    around: dict[str, Any] = {"table": thief.victim.table, "writer": "w", "scratch": Path("/none")}
    for roots in (str(thief.drop), str(thief.drop.parent)):
        environment = {
            "SLUICE_SOURCE_ROOTS": f"{DEFAULT_NAMESPACE}={roots}",
            "SLUICE_TABLE_ROOTS": str(Path(thief.victim.row.location).parent),
        }
        source = {"kind": kind_of(path), "path": path}
        with pytest.raises(InvalidInput, match="source"):
            open_source(source, environment=environment, **around)

    environment = {"SLUICE_SOURCE_ROOTS": str(thief.drop.parent)}
    if place is not letters:  # Beside a table, which only the roots say.
        with pytest.raises(InvalidInput, match="source"):
            open_source({"kind": kind_of(path), "path": path}, environment=environment, **around)


def test_object_in_a_table_of_a_bucket_is_no_source(
    thief: Thief, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_bucket(monkeypatch)
    home = f"s3://{BUCKET}/mixed/{thief.drop.parent.name}"
    open_storage(f"{home}/drop").put("new.csv", ROWS.encode())
    open_storage(f"{home}/t/.hoodie").put("hoodie.properties", b"")
    open_storage(f"{home}/t/p").put("part.csv", ROWS.encode())
    settings.SLUICE_SOURCE_ROOTS = (f"{DEFAULT_NAMESPACE}={home}",)
    environment = {**os.environ, "SLUICE_SOURCE_ROOTS": settings.SLUICE_SOURCE_ROOTS[0]}

    fine = preview_source(thief.own, {"kind": "csv", "path": f"{home}/drop/new.csv"}, by=thief.user)
    with pytest.raises(InvalidRequest, match="read rows of tables by SQL"):
        preview_source(thief.own, {"kind": "csv", "path": f"{home}/t/p/part.csv"}, by=thief.user)
    with pytest.raises(InvalidInput, match="read rows of tables by SQL"):
        rows_place_under_root(f"{home}/t/p/part.csv", environment)
    Table.objects.create(slug="cloud", name="cloud", location=f"{home}/drop")
    with pytest.raises(InvalidRequest, match="read rows of tables by SQL"):
        do_request_write(
            table=thief.own,
            parameters={"source": {"kind": "csv", "path": f"{home}/drop/new.csv"}},
            by=thief.user,
        )

    assert fine.rows_sampled == 1
    assert rows_place_under_root(f"{home}/drop/new.csv", environment) == f"{home}/drop/new.csv"


@pytest.mark.parametrize(
    "statement",
    ["SELECT * FROM parquet.`{file}`", "SELECT * FROM `{file}`", "SELECT * FROM `own`, `trips`"],
)
def test_statement_reads_no_file_and_no_rows_of_others(statement: str, thief: Thief) -> None:
    source = {"kind": "sql", "statement": statement.format(file=thief.file)}

    with pytest.raises((InvalidRequest, PermissionDenied)):
        do_request_write(table=thief.own, parameters={"source": source}, by=thief.user)

    assert not Operation.objects.exists()


@pytest.mark.parametrize("key", ["sluice.dead.letter.path", "hoodie.sink.dead.letter.path"])
@pytest.mark.parametrize("end", ["", "/p", "-dead-letters", "-dead-letters/old"])
def test_dead_letters_of_another_table_are_named_by_no_option(
    key: str, end: str, thief: Thief, operator: User
) -> None:
    """Readers of one table would see the letters of the other as those of their own table."""
    trips, own = thief.victim.row, thief.own
    options = {**OPTIONS, key: f"{own.location}{end}"}

    with pytest.raises(InvalidRequest, match="inside another table"):
        do_start_sink(trips, options, by=operator)

    assert do_start_sink(trips, {**OPTIONS, key: f"{trips.location}{end or '-x'}"}, by=operator)


def test_shell_reads_no_file_of_a_table_either(thief: Thief) -> None:
    """An administrator has every file of the node, but a table's files are not its rows."""
    (thief.drop.parent / "anywhere.csv").write_text(ROWS)

    assert suggest_table(f"{thief.drop.parent}/anywhere.csv", by=None).rows_sampled == 1
    with pytest.raises(InvalidRequest, match="read rows of tables by SQL"):
        suggest_table(str(thief.file), by=None)
    with pytest.raises(CommandError, match="read rows of tables by SQL"):
        call_command("write", letters(thief), "--no-spark", "--table", thief.own.location)
    with pytest.raises(InvalidRequest, match="read rows of tables by SQL"):
        plan_service(thief.own, "insert_overwrite", {"path": plain(thief)}, None, is_shell=True)
