"""Threat T12: what a grant gives, to whom and on which table, and what it does not give."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, connection, transaction
from django.http import Http404
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from controlplane.accounts.models import Grant
from controlplane.errors import InvalidRequest
from controlplane.operations.actions import do_request_write
from controlplane.operations.ask import Requester
from controlplane.operations.request_places import check_named_places
from controlplane.operations.requesting import Given
from controlplane.operations.table_changes.actions import TableChange, do_change_table
from controlplane.tables.access import Permission, access_table, may, visible_tables
from controlplane.tables.listing import Wanted, tables_page
from controlplane.tables.models import Table
from tests.security.conftest import THEIRS

# Role everywhere, in the namespace, on the table; then what may be done to the table, and to
# another of its namespace.
MEANINGS = """
-        -        -        -          -
viewer   -        -        view       view
operator -        -        operate    operate
admin    -        -        administer administer
auditor  -        -        view       view
-        viewer   -        view       view
-        operator -        operate    operate
-        admin    -        administer administer
-        -        viewer   view       -
-        -        operator operate    -
-        -        admin    administer -
viewer   operator -        operate    operate
viewer   -        admin    administer view
admin    viewer   viewer   administer administer
auditor  -        operator operate    view
-        operator viewer   operate    operate
-        viewer   operator operate    view
"""
LINES = [line.split() for line in MEANINGS.strip().splitlines()]
STEPS = ("-", *(permission.value for permission in Permission))


@pytest.fixture
def person(db: None) -> User:
    return User.objects.create_user("pia")


@pytest.fixture
def crew(person: User) -> Group:
    """A group of people, which gives nothing by itself."""
    crew = Group.objects.create(name="night shift")
    person.groups.add(crew)
    return crew


def made(slug: str, namespace: str) -> Table:
    return Table.objects.create(
        slug=slug, name=slug, namespace=namespace, location=f"/lake/{namespace}/{slug}"
    )


@pytest.mark.parametrize("is_by_group", [False, True], ids=["person", "group"])
@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_greatest_role_counts(
    line: list[str], is_by_group: bool, person: User, crew: Group
) -> None:
    everywhere, in_namespace, on_table, *expected = line
    table, neighbour, elsewhere = made("a", "sales"), made("b", "sales"), made("c", "hr")
    holder = {"group": crew} if is_by_group else {"user": person}
    if everywhere != "-":
        person.groups.add(Group.objects.get(name=everywhere))
    if in_namespace != "-":
        Grant.objects.create(**holder, namespace="sales", role=in_namespace)
    if on_table != "-":
        Grant.objects.create(**holder, table=table, role=on_table)

    assert [most(person, table), most(person, neighbour)] == expected
    assert most(person, elsewhere) == (most_of(everywhere))
    for permission in Permission:
        assert [*visible_tables(person, permission)] == [
            each for each in (table, neighbour, elsewhere) if may(person, permission, each)
        ]


def most(person: User, table: Table) -> str:
    """The greatest thing that he may do to it."""
    allowed = [permission.value for permission in Permission if may(person, permission, table)]
    assert allowed == list(STEPS[1 : len(allowed) + 1])
    return allowed[-1] if allowed else "-"


def most_of(role: str) -> str:
    steps = {"viewer": "view", "auditor": "view", "operator": "operate", "admin": "administer"}
    return steps.get(role, "-")


def test_grant_ends_with_its_group_its_user_and_its_table(person: User, crew: Group) -> None:
    table = made("a", "sales")
    Grant.objects.create(group=crew, table=table, role="admin")
    assert most(person, table) == "administer"

    person.groups.remove(crew)
    assert most(person, table) == "-"

    table.delete()
    again = made("a", "sales")
    person.groups.add(crew)
    assert most(person, again) == "-"


def test_who_was_locked_out_keeps_no_grant(person: User) -> None:
    table = made("a", "sales")
    Grant.objects.create(user=person, table=table, role="admin")
    person.is_active = False

    assert most(person, table) == "-"
    assert not visible_tables(person).exists()


def test_database_takes_no_grant_that_is_half_one(person: User, crew: Group) -> None:
    table = made("a", "sales")
    wrong: list[dict[str, object]] = [
        {"role": "admin", "namespace": "sales"},
        {"role": "admin", "namespace": "sales", "user": person, "group": crew},
        {"role": "admin", "user": person},
        {"role": "admin", "user": person, "namespace": "sales", "table": table},
        {"role": "auditor", "user": person, "namespace": "sales"},
    ]

    for values in wrong:
        with pytest.raises(IntegrityError), transaction.atomic():
            Grant.objects.create(**values)
    Grant.objects.create(user=person, table=table, role="viewer")
    with pytest.raises(IntegrityError), transaction.atomic():
        Grant.objects.create(user=person, table=table, role="admin")


def test_lists_ask_the_database_no_oftener_for_more_tables(person: User) -> None:
    def queries_for(tables: int) -> int:
        for number in range(tables):
            table = made(f"t{tables}-{number}", "sales" if number % 2 else "hr")
            Grant.objects.create(user=person, table=table, role="viewer")
        with CaptureQueriesContext(connection) as queries:
            assert tables_page(person, Wanted()).rows
        return len(queries)

    assert queries_for(2) == queries_for(20) <= 6


@pytest.mark.parametrize(("role", "status"), [("viewer", 403), ("operator", 202), ("admin", 202)])
def test_role_on_the_table_decides_what_the_api_does_to_it(
    role: str, status: int, their_table: Table, guest: User, as_guest: Client, settings: Settings
) -> None:
    settings.SLUICE_SOURCE_ROOTS = (f"{THEIRS}=/data",)
    Grant.objects.update(role=role)
    source = {"source": {"kind": "csv", "path": "/data/weather.csv"}}

    answer = as_guest.post(
        "/api/v1/tables/theirs/operations/", source, content_type="application/json"
    )

    assert answer.status_code == status
    assert as_guest.get("/api/v1/tables/theirs/").status_code == 200
    assert as_guest.post("/api/v1/marker-server/restart/").status_code == 403
    registration = as_guest.post("/api/v1/tables/", {}, content_type="application/json")
    assert registration.status_code == 403


def test_page_says_and_offers_what_the_role_on_its_table_allows(trips: Table, person: User) -> None:
    Grant.objects.create(user=person, table=trips, role="operator")
    client = Client()
    client.force_login(person)

    html = client.get("/t/trips/savepoints").content.decode()
    tables = client.get("/").content.decode()

    assert "operator</span>" in "".join(html.split())
    assert "Creating a savepoint requires" not in html
    assert "roles on some tables" in tables


@pytest.mark.parametrize(
    "place",
    ["/lake/hr/c/part.parquet", "/lake/hr/none/x.csv", "/lake", "/lake/sales/../hr/c",
     "/lake/sales/a{,/../../hr/c}/x.csv", "file:///lake/hr/c", "/lake/sales/a/*/x.csv"],
)  # fmt: skip
def test_request_takes_nothing_from_tables_of_others_and_puts_nothing_there(
    place: str, person: User, settings: Settings
) -> None:
    settings.SLUICE_TABLE_ROOTS = ("/lake",)
    settings.SLUICE_SOURCE_ROOTS = ("/data",)
    own, _ = made("a", "sales"), made("c", "hr")
    Grant.objects.create(user=person, table=own, role="operator")
    parameters = {"source": {"kind": "csv", "path": place}}

    with pytest.raises(InvalidRequest, match="source"):
        do_request_write(table=own, parameters=parameters, by=person)
    with pytest.raises(InvalidRequest, match="a table on which you are operator"):
        check_named_places(person, {"options": {"sluice.dead.letter.path": place}})

    assert own.operations.count() == 0


def test_request_names_places_of_its_own_tables_and_sources(
    person: User, operator: User, settings: Settings, tmp_path: Path
) -> None:
    settings.SLUICE_TABLE_ROOTS = ("/lake",)
    own, read_only = made("a", "sales"), made("c", "hr")
    Grant.objects.create(user=person, table=own, role="operator")
    Grant.objects.create(user=person, table=read_only, role="viewer")
    fine = ["/lake/sales/a/x", "/lake/sales/a-dead-letters", "/data/x.csv", "city = '/lake'"]

    check_named_places(person, {"options": {"k": fine}})
    check_named_places(operator, {"path": "/lake/hr/c"})
    with pytest.raises(InvalidRequest):
        check_named_places(person, {"path": "/lake/hr/c"})


def test_operator_of_one_table_is_told_apart_from_who_sees_nothing(
    person: User, nobody: User
) -> None:
    own, other = made("a", "sales"), made("c", "hr")
    Grant.objects.create(user=person, table=own, role="viewer")

    for slug in (other.slug, "no-such-table"):
        with pytest.raises(Http404):
            access_table(person, slug, Permission.ADMINISTER)
        with pytest.raises(PermissionDenied):
            access_table(nobody, slug, Permission.VIEW)
    with pytest.raises(PermissionDenied):
        access_table(person, own.slug, Permission.OPERATE)


# Namespaces in which he is admin, whether he is one of the table, what he changes; then the answer.
CHANGES = """
-          yes name=Other         done
-          yes namespace=hr       refused
sales      no  namespace=hr       refused
hr         yes namespace=hr       refused
sales,hr   no  namespace=hr       done
sales,hr   no  slug=other         refused
sales,hr   no  location=/lake/x   refused
hr         no  name=Other         refused
"""


@pytest.mark.parametrize("line", [line.split() for line in CHANGES.strip().splitlines()])
def test_admin_changes_of_what_is_registered_what_is_his_alone(
    line: list[str], person: User
) -> None:
    namespaces, is_of_table, change, expected = line
    key, text = change.split("=")
    table = made("a", "sales")
    for namespace in namespaces.replace("-", "").split(","):
        if namespace:
            Grant.objects.create(user=person, namespace=namespace, role="admin")
    if is_of_table == "yes":
        Grant.objects.create(user=person, table=table, role="admin")
    by, given = Requester.person(person), Given(reason="it was asked for")

    try:
        changed = do_change_table(table, TableChange(**{key: text}), by=by, given=given)
    except PermissionDenied:
        assert expected == "refused"
    else:
        assert (expected, getattr(changed, key)) == ("done", text)


def test_former_slug_of_a_table_of_others_leads_nowhere(
    trips: Table, admin: User, as_guest: Client, as_admin: Client
) -> None:
    change = TableChange(slug="journeys")
    do_change_table(trips, change, by=Requester.person(admin), given=Given(reason="clearer"))

    assert as_admin.get("/t/trips/").status_code == 307
    assert as_guest.get("/t/trips/").status_code == 404
    assert as_guest.get("/api/v1/tables/trips/").status_code == 404
