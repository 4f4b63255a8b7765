"""A registered table gets another name, slug, namespace or place, or goes off the register: what
that needs, what it changes, and that nothing of it happens while the table is in use.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.utils import timezone

from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest, KeyReused, NotAllowedNow
from controlplane.mirror.models import InstantRecord, SinkRecord, SyncMark
from controlplane.mirror.sync import look, sync_table
from controlplane.mirror.turns import take_turn
from controlplane.operations.actions import do_request_write
from controlplane.operations.ask import Requester
from controlplane.operations.models import Operation, ServiceSetting
from controlplane.operations.moves import amend, move
from controlplane.operations.requesting import Given
from controlplane.operations.states import OperationState
from controlplane.operations.table_changes.actions import (
    TableChange,
    Unregistered,
    do_change_table,
    do_unregister_table,
)
from controlplane.operations.table_changes.hanging import table_change_plan
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import FormerSlug, Table, TableRequest
from tests.controlplane.conftest import SCHEMA
from tests.controlplane.lake import Lake
from workers import create_table

WHY = Given(reason="because")
SOURCE = {"source": {"kind": "csv", "path": "/data/weather.csv"}}


def rename(table: Table, by: User, **names: str) -> Table:
    return do_change_table(table, TableChange(**names), by=Requester.person(by), given=WHY)


def unregister(table: Table, by: User, key: str | None = None) -> Unregistered:
    given = Given(reason="because", typed_name=table.slug, idempotency_key=key)
    return do_unregister_table(table, by=Requester.person(by), given=given)


def relocate(table: Table, by: User, location: Path | str) -> Table:
    return do_change_table(
        table, TableChange(location=str(location)), by=Requester.person(by), given=WHY
    )


def files_of(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_a_renamed_table_keeps_its_mirror_and_its_former_slug_leads_to_it(
    synced: Table, admin: User
) -> None:
    instants = InstantRecord.objects.filter(table=synced).count()

    renamed = rename(synced, admin, slug="journeys", name="Journeys")

    assert (renamed.slug, renamed.name) == ("journeys", "Journeys")
    assert InstantRecord.objects.filter(table__slug="journeys").count() == instants > 0
    assert FormerSlug.objects.get().slug == "trips"
    event = AuditEvent.objects.get(what="table.rename")
    assert (event.object, event.who, event.reason) == ("trips", "ada", "because")
    assert event.details["slug"] == "journeys"


def test_pages_fragments_and_the_api_lead_from_a_former_slug_with_query_and_method(
    synced: Table, admin: User, client: Client
) -> None:
    rename(synced, admin, slug="journeys")
    client.force_login(admin)

    led = [
        client.get("/t/trips/timeline?sel=1&from=%2B2"),
        client.get("/api/v1/tables/trips/instants/?limit=3"),
        client.post("/api/v1/tables/trips/services/clean/plan/", "{}", "application/json"),
    ]

    assert [answer.status_code for answer in led] == [307, 307, 307]
    assert [answer["Location"] for answer in led] == [
        "/t/journeys/timeline?sel=1&from=%2B2",
        "/api/v1/tables/journeys/instants/?limit=3",
        "/api/v1/tables/journeys/services/clean/plan/",
    ]
    assert client.get("/api/v1/tables/trips/instants/20200101000000000/").status_code == 307
    assert client.get("/api/v1/tables/journeys/instants/20200101000000000/").status_code == 404


def test_nobody_learns_from_a_former_slug_what_he_may_not_see(
    synced: Table, admin: User, nobody: User, client: Client
) -> None:
    rename(synced, admin, slug="journeys")
    client.force_login(nobody)

    assert client.get("/t/trips/").status_code == 403
    assert client.get("/api/v1/tables/trips/").status_code == 403


def test_a_former_slug_that_is_taken_again_goes_to_the_new_owner(
    root: Path, synced: Table, admin: User, client: Client
) -> None:
    rename(synced, admin, slug="journeys")
    client.force_login(admin)

    do_register_table(location=f"{root}/another", slug="trips", by=admin)

    assert not FormerSlug.objects.exists()
    assert client.get("/api/v1/tables/trips/").json()["location"] == f"{root}/another"


def test_a_table_that_gets_its_former_slug_back_leads_from_the_one_in_between(
    synced: Table, admin: User
) -> None:
    rename(synced, admin, slug="journeys")

    rename(Table.objects.get(), admin, slug="trips")

    assert [(row.slug, row.table.slug) for row in FormerSlug.objects.all()] == [
        ("journeys", "trips")
    ]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize(
    "names",
    [{"slug": "Trips"}, {"slug": "../x"}, {"name": "<b>"}, {"slug": "other"}, {"slug": "trips"}],
    ids=str,
)
def test_a_name_that_cannot_be_changes_nothing(
    root: Path, synced: Table, admin: User, names: dict[str, str]
) -> None:
    do_register_table(location=f"{root}/other", slug="other", by=admin)

    with pytest.raises(InvalidRequest):
        rename(synced, admin, **names)

    synced.refresh_from_db()
    assert (synced.slug, synced.name) == ("trips", "Trips")
    assert not FormerSlug.objects.exists()
    assert not AuditEvent.objects.filter(what="table.rename").exists()


def test_a_table_moves_to_another_namespace(synced: Table, admin: User) -> None:
    moved = do_change_table(
        synced, TableChange(namespace="sales"), by=Requester.person(admin), given=WHY
    )

    assert Table.objects.get().namespace == moved.namespace == "sales"
    details = AuditEvent.objects.get(what="table.move").details
    assert details == {"namespace_before": "default", "namespace": "sales"}


def test_what_hangs_on_a_table_is_counted_before_it_goes(synced: Table, admin: User) -> None:
    rename(synced, admin, slug="journeys")
    table = Table.objects.get()

    plan = table_change_plan(table)

    counts = {hanging.what: hanging.rows for hanging in plan.goes}
    assert counts["instants"] == table.instants.count()
    assert counts["file groups"] == plan.file_groups == table.file_groups.count()
    assert counts["former slugs"] == 1
    assert plan.rows_going == sum(counts.values())
    assert plan.audit_rows == 2
    assert plan.blockers == []
    assert plan.bytes > 0


def test_an_unregistered_table_is_gone_its_files_and_its_audit_stay(
    root: Path, synced: Table, admin: User, client: Client
) -> None:
    before = files_of(root)

    done = unregister(synced, admin)

    assert not Table.objects.exists()
    assert not InstantRecord.objects.exists()
    assert not SyncMark.objects.exists()
    assert files_of(root) == before
    assert set(AuditEvent.objects.values_list("object", flat=True)) == {"trips"}
    assert done.rows_deleted > 0
    client.force_login(admin)
    for address in ("/t/trips/", "/t/trips/live", "/events/trips", "/api/v1/tables/trips/"):
        assert client.get(address).status_code == 404


def test_a_table_that_is_registered_again_shows_everything_anew(
    root: Path, synced: Table, admin: User
) -> None:
    before = set(synced.instants.values_list("requested_at", "action", "state"))
    unregister(synced, admin)

    again = do_register_table(location=f"{root}/trips", slug="trips", by=admin)
    sync_table(again)

    assert set(again.instants.values_list("requested_at", "action", "state")) == before
    assert again.file_groups.count() > 0


def test_unregistering_needs_the_name_typed_and_a_reason_and_the_role(
    synced: Table, admin: User, operator: User
) -> None:
    by = Requester.person(admin)

    with pytest.raises(InvalidRequest, match="name"):
        do_unregister_table(synced, by=by, given=Given(reason="x", typed_name="tips"))
    with pytest.raises(InvalidRequest, match="reason"):
        do_unregister_table(synced, by=by, given=Given(typed_name="trips"))
    with pytest.raises(PermissionDenied):
        unregister(synced, operator)
    with pytest.raises(PermissionDenied):
        rename(synced, operator, slug="x")
    with pytest.raises(InvalidRequest, match="reason"):
        do_change_table(synced, TableChange(slug="x"), by=by, given=Given())

    assert Table.objects.get().slug == "trips"


def test_nothing_moves_while_an_operation_is_open_and_it_is_named(
    root: Path, synced: Table, admin: User
) -> None:
    operation = do_request_write(table=synced, parameters=SOURCE, by=admin)
    shutil.copytree(root / "trips", root / "elsewhere")

    for change in (
        lambda: relocate(synced, admin, root / "elsewhere"),
        lambda: unregister(synced, admin),
    ):
        with pytest.raises(NotAllowedNow) as refused:
            change()
        assert refused.value.values["operations"] == [f"/api/v1/operations/{operation.pk}/"]
        assert str(operation.pk) in str(refused.value.values["blockers"])

    move(operation.pk, OperationState.CANCELLED)
    assert relocate(synced, admin, root / "elsewhere").location.endswith("elsewhere")


def test_names_change_while_operations_schedules_and_sinks_run(synced: Table, admin: User) -> None:
    do_request_write(table=synced, parameters=SOURCE, by=admin)
    ServiceSetting.objects.create(table=synced, service="clean", is_enabled=True)

    moved = do_change_table(
        synced, TableChange(namespace="sales"), by=Requester.person(admin), given=WHY
    )
    renamed = rename(moved, admin, slug="x", name="Rides")

    assert (renamed.namespace, renamed.slug, renamed.name) == ("sales", "x", "Rides")


def test_nothing_moves_while_a_schedule_or_a_sink_runs(
    root: Path, synced: Table, admin: User
) -> None:
    ServiceSetting.objects.create(table=synced, service="clean", is_enabled=True)
    SinkRecord.objects.create(
        table=synced, sink_id="orders", state="RUNNING", updated_at=timezone.now()
    )
    shutil.copytree(root / "trips", root / "elsewhere")

    with pytest.raises(NotAllowedNow) as refused:
        relocate(synced, admin, root / "elsewhere")

    assert [str(text).split(":")[0] for text in refused.value.values["blockers"]] == [  # type: ignore[attr-defined]  # a list of texts
        "the schedule of clean is on",
        "the sink orders runs",
    ]


def test_a_relocated_table_is_read_at_its_new_place(root: Path, lake: Lake, admin: User) -> None:
    lake.commit({"id": "1", "ts": 1, "city": "Oslo"})
    sync_table(lake.row)
    lake.row.refresh_from_db()
    shutil.move(root / "trips", root / "archive-trips")

    moved = relocate(lake.row, admin, root / "archive-trips")
    sync_table(moved)

    moved.refresh_from_db()
    assert moved.location == f"{root}/archive-trips"
    assert moved.sync_error == ""
    assert moved.instants.count() == lake.row.instants.count()


def test_another_table_at_the_new_place_is_refused(root: Path, lake: Lake, admin: User) -> None:
    lake.commit({"id": "1", "ts": 1, "city": "Oslo"})
    sync_table(lake.row)
    lake.row.refresh_from_db()
    made: dict[str, Any] = {"record_key": ["id"], "ordering": ["ts"], "schema": SCHEMA}
    create_table(root / "twin", name="trips", table_type="MERGE_ON_READ", **made)
    create_table(root / "named", name="others", table_type="MERGE_ON_READ", **made)
    (root / "empty").mkdir()

    for place, words in (
        ("twin", "lacks a commit"),
        ("named", "another table"),
        ("empty", "no table"),
        ("trips/inner", "no table"),
        ("trips", "nothing would change"),
    ):
        with pytest.raises(InvalidRequest, match=words):
            relocate(lake.row, admin, root / place)
    with pytest.raises(InvalidRequest):
        relocate(lake.row, admin, "/etc")

    lake.row.refresh_from_db()
    assert lake.row.location == f"{root}/trips"


def test_a_table_does_not_relocate_into_another_ones_place(
    root: Path, synced: Table, admin: User
) -> None:
    do_register_table(location=f"{root}/others", slug="others", by=admin)
    shutil.copytree(root / "trips", root / "others" / "trips")

    with pytest.raises(InvalidRequest, match="overlaps"):
        relocate(synced, admin, root / "others" / "trips")


def test_a_look_that_began_before_applies_nothing_of_a_table_that_went_or_moved(
    root: Path, synced: Table, admin: User, lake: Lake
) -> None:
    turn = take_turn(synced)
    assert turn is not None
    shutil.copytree(root / "trips", root / "moved")
    relocate(synced, admin, root / "moved")
    lake.commit({"id": "2", "ts": 2, "city": "Bergen"})

    assert look(turn).changed == frozenset()

    turn = take_turn(Table.objects.get())
    assert turn is not None
    unregister(Table.objects.get(), admin)
    assert look(turn).changed == frozenset()
    assert take_turn(synced) is None
    assert not SyncMark.objects.exists()


def test_late_words_of_an_operation_that_went_with_its_table_end_cleanly(
    synced: Table, admin: User
) -> None:
    operation = do_request_write(table=synced, parameters=SOURCE, by=admin)
    move(operation.pk, OperationState.CANCELLED)
    unregister(synced, admin)

    assert move(operation.pk, OperationState.SUCCEEDED) is None
    amend(operation.pk, message="late")
    with pytest.raises(NotAllowedNow, match="unregistered"):
        do_request_write(table=synced, parameters=SOURCE, by=admin)

    assert not Operation.objects.exists()


def test_the_same_request_sent_twice_with_its_key_is_done_once(
    root: Path, synced: Table, admin: User
) -> None:
    keyed = Given(reason="because", idempotency_key="k1")
    by = Requester.person(admin)

    first = do_change_table(synced, TableChange(slug="journeys"), by=by, given=keyed)
    again = do_change_table(synced, TableChange(slug="journeys"), by=by, given=keyed)
    with pytest.raises(KeyReused):
        do_change_table(synced, TableChange(slug="travels"), by=by, given=keyed)
    done = unregister(first, admin, key="k2")

    assert first.slug == again.slug == "journeys"
    assert unregister(first, admin, key="k2") == done
    assert AuditEvent.objects.filter(what__in=("table.rename", "table.unregister")).count() == 2
    assert TableRequest.objects.count() == 2
