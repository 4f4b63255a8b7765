"""People whose roles hold in one place only, for the tables of who may do what."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.models import Group, User
from django.db import transaction

from controlplane.accounts.models import Grant
from controlplane.tables.models import RowGrant, Table

OF_PLACES = ("auditor", "member", "viewer_here", "operator_here", "admin_here", "neighbour")
"""An auditor; an operator of a table by a group alone; a viewer, an operator and an admin of that
table alone; an admin of another table.
"""


def people_of_places(*tables: Table) -> dict[str, User]:
    """Make one person for each of `OF_PLACES`, `tables` being the table and what else addresses
    name. Those who see them may read their rows.
    """
    people = {name: User.objects.create_user(name) for name in OF_PLACES}
    people["auditor"].groups.add(Group.objects.get(name="auditor"))
    crew = Group.objects.create(name="crew")
    people["member"].groups.add(crew)
    for table in tables:
        Grant.objects.create(group=crew, table=table, role="operator", granted_by="a test")
        for role in ("viewer", "operator", "admin"):
            person = people[f"{role}_here"]
            Grant.objects.create(user=person, table=table, role=role, granted_by="a test")
    theirs = Table.objects.create(
        slug="theirs", name="theirs", namespace="theirs", location="/lake/theirs"
    )
    Grant.objects.create(user=people["neighbour"], table=theirs, role="admin", granted_by="a test")
    for person in people.values():
        RowGrant.objects.create(user=person, right="rows")
    return people


@contextmanager
def undone() -> Iterator[None]:
    """Undo what requests change in the database, so that the next one finds the same."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
