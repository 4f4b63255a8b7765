"""Threat T12: a write of a statement's rows reads what its requester may read, when it is asked for
and when it begins, and shows nobody else what that is.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.test import Client
from django.utils import timezone

from controlplane.accounts.models import Grant
from controlplane.audit.models import AuditEvent
from controlplane.errors import InvalidRequest
from controlplane.operations.actions import do_give_leave, do_request_again, do_request_write
from controlplane.operations.models import Operation
from controlplane.operations.queries import operation_detail
from controlplane.operations.requesting import Given
from controlplane.operations.source_previews import preview_source
from controlplane.operations.table_creation.suggesting import suggest_from_statement
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import READS_ROWS, MaskedColumn, RowGrant, Table
from tests.controlplane.conftest import SCHEMA
from tests.controlplane.lake import Lake
from workers import create_table

COPY = "SELECT id, ts, city FROM trips WHERE ts > 0"


@pytest.fixture
def target(lake: Lake) -> Table:
    """Where the rows go."""
    location = lake.row.location.replace("trips", "copies")
    create_table(location, name="copies", schema=SCHEMA, record_key=["id"])
    return do_register_table(location=location, slug="copies", name="Copies", by=None)


@pytest.fixture
def guest(target: Table, nobody: User) -> User:
    """Who writes the target and sees nothing else."""
    Grant.objects.create(user=nobody, table=target, role="operator", granted_at=timezone.now())
    return nobody


def may_see(user: User, table: Table) -> None:
    Grant.objects.create(user=user, table=table, role="viewer", granted_at=timezone.now())


def may_read(user: User, table: Table) -> None:
    RowGrant.objects.create(
        user=user, table=table, right=READS_ROWS, granted_at=timezone.now(), granted_by="a test"
    )


def write(table: Table, by: User, statement: str = COPY, **more: Any) -> Operation:
    source = {"kind": "sql", "statement": statement, **more}
    parameters = {"source": source, "operation": "upsert"}
    return do_request_write(table=table, parameters=parameters, by=by)


def test_job_names_the_tables_and_columns_that_were_checked(
    synced: Table, target: Table, admin: User
) -> None:
    operation = write(target, admin)

    source = operation.parameters["job"]["source"]
    tables = json.loads(source["tables"])
    assert source["statement"] == COPY
    assert tables == {
        "trips": {
            "location": synced.location,
            "columns": {"id": "string", "ts": "bigint", "city": "string"},
        }
    }
    event = AuditEvent.objects.get(what="operation.write", result="requested")
    assert event.details["reads"] == ["trips"]


def test_whoever_does_not_see_a_table_or_may_not_read_its_rows_is_refused(
    synced: Table, target: Table, guest: User
) -> None:
    with pytest.raises(InvalidRequest, match="no such table, or you do not see it"):
        write(target, guest)
    may_see(guest, synced)
    with pytest.raises(PermissionDenied, match="right to read rows"):
        write(target, guest)
    may_read(guest, synced)

    assert write(target, guest).state == "queued"


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT id, ts, city FROM trips",
        "SELECT * FROM trips",
        "SELECT id FROM trips WHERE city = 'x'",
    ],
)
def test_masked_column_is_written_nowhere(
    synced: Table, target: Table, guest: User, statement: str
) -> None:
    may_see(guest, synced)
    may_read(guest, synced)
    MaskedColumn.objects.create(table=synced, path="city")

    with pytest.raises(PermissionDenied, match="mask"):
        write(target, guest, statement)
    assert write(target, guest, "SELECT id, ts FROM trips").state == "queued"


def test_right_that_was_taken_away_meanwhile_is_asked_for_when_it_begins(
    synced: Table, target: Table, guest: User
) -> None:
    """Threat T14."""
    may_see(guest, synced)
    may_read(guest, synced)
    kept, lost = write(target, guest), write(target, guest, f"{COPY} AND ts > 1")
    assert do_give_leave(kept.pk) is True
    RowGrant.objects.all().delete()

    assert do_give_leave(lost.pk) is False

    lost.refresh_from_db()
    assert (lost.state, lost.message) == (
        "refused",
        "its requester nora may no longer read what it reads",
    )


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM trips",
        "SELECT 1; DROP TABLE trips",
        "SELECT * FROM parquet.`/etc`",
        "SELECT * FROM `/etc/passwd`",
        "SELECT reflect('java.lang.System', 'getenv')",
        "SELECT java_method('java.lang.Runtime', 'getRuntime')",
        "",
    ],
)
def test_what_is_no_plain_select_is_refused(
    synced: Table, target: Table, admin: User, statement: str
) -> None:
    with pytest.raises(InvalidRequest):
        write(target, admin, statement)


def test_request_does_not_say_where_its_tables_lie(
    synced: Table, target: Table, admin: User
) -> None:
    """Threat T1."""
    with pytest.raises(InvalidRequest, match="unknown keys"):
        write(target, admin, tables='{"trips": {"location": "/etc", "columns": {}}}')


def test_others_who_see_the_target_do_not_read_the_statement(
    synced: Table, target: Table, admin: User, guest: User, client: Client
) -> None:
    operation = write(target, admin)
    Operation.objects.filter(pk=operation.pk).update(state="failed")
    client.force_login(guest)

    shown = client.get(f"/api/v1/operations/{operation.pk}/").content.decode()

    assert "trips" not in shown
    detail = operation_detail(operation.pk, admin)
    assert detail is not None
    assert detail.parameters["job"]["source"] == {"kind": "sql"}
    again = do_request_again(Operation.objects.get(pk=operation.pk), {}, Given(), admin)
    assert again.parameters["job"]["source"] == operation.parameters["job"]["source"]


def test_a_look_at_a_statement_shows_no_more_than_a_write_would_read(
    synced: Table, target: Table, guest: User
) -> None:
    def look(statement: str) -> object:
        source = {"kind": "sql", "statement": statement}
        return preview_source(target, source, by=guest).columns

    with pytest.raises(InvalidRequest, match="no such table, or you do not see it"):
        look(COPY)
    may_see(guest, synced)
    with pytest.raises(PermissionDenied, match="right to read rows"):
        look(COPY)
    may_read(guest, synced)
    MaskedColumn.objects.create(table=synced, path="city")
    with pytest.raises(PermissionDenied, match="mask"):
        look(COPY)
    with pytest.raises(PermissionDenied, match="mask"):
        suggest_from_statement("SELECT id, city FROM trips", by=guest)

    assert look("SELECT id, ts FROM trips")
