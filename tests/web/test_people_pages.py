"""Pages of people, which show no table: what they cost, and what they say of long lists; and what
the frame around every page says.
"""

from __future__ import annotations

import gzip
import re

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.accounts.models import Grant
from controlplane.people.queries.users import LISTED_MAX
from controlplane.tables.models import Table
from tests.web.conftest import fill
from tests.web.test_pages import QUERIES_MAX

OF_PEOPLE = (
    "/people",
    "/people/{person}",
    "/people/groups/{group}",
    "/access",
    "/tokens",
    "/login/",
)
"""Of admins; they show no table."""


@pytest.fixture
def auditor(db: None) -> User:
    person = User.objects.create_user("abel")
    person.groups.add(Group.objects.get(name="auditor"))
    return person


@pytest.mark.slow
@pytest.mark.parametrize("path", OF_PEOPLE)
def test_page_of_people_asks_a_bounded_number_of_times_and_is_light(
    path: str, busy: Table, admin: User, as_admin: Client
) -> None:
    """However many people, groups, roles and tokens there are."""
    group = Group.objects.create(name="night shift")
    for at in range(12):
        person = User.objects.create(username=f"person-{at}")
        person.groups.add(group, Group.objects.create(name=f"group-{at}"))
        Grant.objects.create(
            user=person, namespace=f"n{at}", role="viewer", granted_at=timezone.now()
        )
        Grant.objects.create(group=group, table=fill(f"more-{at}", admin), role="viewer")

    with CaptureQueriesContext(connection) as queries:
        answer = as_admin.get(path.format(person=admin.pk, group=group.pk))

    assert answer.status_code in (200, 302)
    assert len(queries) <= QUERIES_MAX, [query["sql"][:90] for query in queries]
    assert len(gzip.compress(answer.content)) < 12_000
    assert not re.search(r"\s(?:style|on[a-z]+)=", answer.content.decode())


def test_no_key_leads_to_two_pages(busy: Table, as_admin: Client) -> None:
    html = as_admin.get("/t/ads/").content.decode()

    keys = re.findall(r'data-go="(.)"', html)
    assert len(keys) > 15
    assert len(keys) == len(set(keys))
    assert keys == re.findall(r"<kbd aria-hidden=\"true\">g (.)</kbd>", html)


def test_list_of_people_says_how_many_there_are_and_leads_on(admin: User, as_admin: Client) -> None:
    User.objects.bulk_create([User(username=f"p{at:03}") for at in range(LISTED_MAX)])

    first = as_admin.get("/people").content.decode()
    rest = as_admin.get("/people?after=p498").content.decode()
    api = as_admin.get("/api/v1/users/?after=p498").json()

    assert "Showing 500 of 501" in first
    assert "after=p498" in first
    assert "p499" not in first
    assert [row["name"] for row in api] == ["p499"]
    assert "p499" in rest


def test_auditor_who_sends_the_form_of_a_new_person_is_refused(
    auditor: User, client: Client
) -> None:
    """Whether or not the form is filled in."""
    client.force_login(auditor)

    answers = [client.post("/people", form).status_code for form in ({}, {"name": "mallory"})]

    assert client.get("/people").status_code == 200
    assert answers == [403, 403]
    assert not User.objects.filter(username="mallory").exists()


def test_thresholds_are_written_as_people_write_numbers(admin: User, as_admin: Client) -> None:
    html = as_admin.get("/alerts/thresholds").content.decode()

    assert 'class="num">120</td>' in html
    assert not re.search(r"\d\.0\b", html)
