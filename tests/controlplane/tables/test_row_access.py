"""Threat T12: who reads rows of a table and sees its masked columns, and what others see."""

from __future__ import annotations

import pyarrow as pa
import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.accounts.models import Grant
from controlplane.audit.models import AuditEvent
from controlplane.tables.access import begin_visit
from controlplane.tables.masks import MASK
from controlplane.tables.models import MaskedColumn, RowGrant, Table
from controlplane.tables.row_access import (
    do_record_rows_read,
    find_masked_columns,
    row_access,
    whole_tables,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def people() -> Table:
    table = Table.objects.create(
        slug="people",
        name="people",
        namespace="staff",
        location="/lake/people",
        record_key="id,address.zip",
        partition_by="city:simple",
    )
    for path in ("Email", "address.street"):
        MaskedColumn.objects.create(table=table, path=path)
    return table


@pytest.fixture
def pia(people: Table) -> User:
    person = User.objects.create_user("pia")
    Grant.objects.create(user=person, table=people, role="operator", granted_by="a test")
    return person


@pytest.mark.parametrize(
    ("right", "place", "may_read", "sees_all"),
    [
        ("", "", False, False),
        ("rows", "everywhere", True, False),
        ("rows", "namespace", True, False),
        ("rows", "table", True, False),
        ("masked", "everywhere", True, True),
        ("masked", "namespace", True, True),
        ("masked", "table", True, True),
        ("masked", "other namespace", False, False),
        ("masked", "other table", False, False),
    ],
)
@pytest.mark.parametrize("holder", ["user", "group"])
def test_right_holds_where_it_is_given(
    holder: str, right: str, place: str, may_read: bool, sees_all: bool, people: Table, pia: User
) -> None:
    team = Group.objects.create(name="team")
    pia.groups.add(team)
    other = Table.objects.create(slug="other", name="other", location="/lake/other")
    places: dict[str, dict[str, object]] = {
        "everywhere": {},
        "namespace": {"namespace": "staff"},
        "table": {"table": people},
        "other namespace": {"namespace": "default"},
        "other table": {"table": other},
    }
    if right:
        held: dict[str, object] = {"user": pia} if holder == "user" else {"group": team}
        RowGrant.objects.create(right=right, **held, **places[place])

    access = row_access(pia, people)

    assert (access.may_read, access.sees_all) == (may_read, sees_all)


def test_right_to_read_rows_shows_nobody_a_table_that_he_does_not_see(people: Table) -> None:
    stranger = User.objects.create_user("sam")
    RowGrant.objects.create(right="masked", user=stranger)

    assert not row_access(stranger, people).may_read
    assert not row_access(AnonymousUser(), people).may_read


def test_admin_of_the_table_reads_all_of_it(people: Table, pia: User) -> None:
    Grant.objects.update(role="admin")

    assert row_access(pia, people).sees_all


def test_whoever_may_not_read_is_refused_with_what_to_ask_for(people: Table, pia: User) -> None:
    access = row_access(pia, people)

    with pytest.raises(PermissionDenied, match="right to read rows, which an admin of its"):
        access.check()
    for shown in (
        lambda: access.rows(pa.table({"id": [1]})),
        lambda: access.row({"id": 1}),
        lambda: access.text("1", "id"),
        lambda: access.check_column("id"),
    ):
        with pytest.raises(PermissionDenied):
            shown()


def test_mask_is_the_same_for_every_value_and_for_none(people: Table, pia: User) -> None:
    RowGrant.objects.create(right="rows", user=pia)
    access = row_access(pia, people)
    address = [{"street": "Gate 1", "zip": 5}, None, {"street": None, "zip": 7}]
    rows = pa.table(
        {"id": [1, 2, 3], "EMAIL": ["a@b", None, "long@example.org"], "Address": address}
    )

    shown = access.rows(rows)

    assert shown.column("id").to_pylist() == [1, 2, 3]
    assert shown.column("EMAIL").to_pylist() == [MASK, MASK, MASK]
    assert shown.column("Address").to_pylist() == [
        {"street": MASK, "zip": 5}, None, {"street": MASK, "zip": 7},
    ]  # fmt: skip
    assert access.row(rows.to_pylist()[0]) == shown.to_pylist()[0]
    assert access.text("a@b", "eMail") == MASK
    assert access.text("Gate 1", "address.street.number") == MASK
    assert access.text("{...}", "address") == MASK
    assert access.text("5", "address.zip") == "5"


def test_array_with_a_masked_part_is_masked_whole(people: Table, pia: User) -> None:
    RowGrant.objects.create(right="rows", user=pia)
    MaskedColumn.objects.create(table=people, path="calls.number")
    access = row_access(pia, people)
    rows = pa.table({"calls": [[{"number": 5}], [], None]})

    assert access.rows(rows).column("calls").to_pylist() == [MASK] * 3
    assert access.row({"calls": [{"number": 5}]}) == {"calls": MASK}


def test_copy_of_a_key_is_masked_with_any_part_of_the_key(people: Table, pia: User) -> None:
    RowGrant.objects.create(right="rows", user=pia)
    assert not row_access(pia, people).masks("_hoodie_record_key")

    MaskedColumn.objects.create(table=people, path="Address")
    MaskedColumn.objects.create(table=people, path="CITY")

    access = row_access(pia, people)
    assert access.masks("_hoodie_record_key")
    assert access.masks("_hoodie_partition_path")
    with pytest.raises(PermissionDenied, match="masked"):
        access.check_column("city")


def test_reading_is_in_the_audit_without_a_value(people: Table, pia: User) -> None:
    RowGrant.objects.create(right="rows", user=pia)

    do_record_rows_read(row_access(pia, people), door="sql", rows=12, query="1f")

    event = AuditEvent.objects.get(what="rows.read")
    assert (event.who, event.object) == ("pia", "people")
    assert event.details == {
        "door": "sql", "rows": 12, "query": "1f", "masked": ["address.street", "email"],
    }  # fmt: skip


def test_one_request_asks_once_and_the_next_one_again(people: Table, pia: User) -> None:
    RowGrant.objects.create(user=pia, table=people, right="rows")
    begin_visit(pia)

    with CaptureQueriesContext(connection) as queries:
        first = row_access(pia, people)
        assert row_access(pia, people) == first
        assert whole_tables(pia, [people]) == frozenset()
        assert find_masked_columns(pia, [people])[people.pk] == first.masked

    assert len(queries) == 1
    RowGrant.objects.all().delete()
    MaskedColumn.objects.filter(path="Email").delete()
    assert row_access(pia, people).may_read, "one request sees one state"
    begin_visit(pia)
    assert not row_access(pia, people).may_read
    assert "email" not in row_access(pia, people).masked


def test_without_a_request_each_look_asks_again(people: Table, pia: User) -> None:
    """As a live stream does, which lasts longer than a request."""
    RowGrant.objects.create(user=pia, table=people, right="masked")
    assert row_access(pia, people).sees_all
    assert whole_tables(pia, [people]) == {people.pk}

    RowGrant.objects.all().delete()

    assert not row_access(pia, people).may_read
    assert whole_tables(pia, [people]) == frozenset()
