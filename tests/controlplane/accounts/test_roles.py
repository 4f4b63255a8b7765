"""What each role that holds everywhere means, the auditor's above all."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command

from controlplane.accounts.access_levels import ROLES
from controlplane.accounts.roles import is_admin, is_auditor, is_operator, is_viewer

# Role, then: reads, operates, administers, reads the audit of everybody
MEANINGS = """
nothing    no  no  no  no
viewer     yes no  no  no
operator   yes yes no  no
admin      yes yes yes yes
auditor    yes no  no  yes
superuser  yes yes yes yes
"""
LINES = [line.split() for line in MEANINGS.strip().splitlines()]


@pytest.mark.django_db
@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0])
def test_what_a_role_may(line: list[str]) -> None:
    role, *answers = line
    person = User.objects.create_user("rolf", is_superuser=role == "superuser")
    if role in ROLES:
        person.groups.add(Group.objects.get(name=role))

    claims = [is_viewer, is_operator, is_admin, is_auditor]

    assert ["yes" if may(person) else "no" for may in claims] == answers


@pytest.mark.django_db
def test_every_role_is_tried_above() -> None:
    assert set(ROLES) <= {line[0] for line in LINES}


@pytest.mark.django_db
def test_auditor_who_was_locked_out_reads_nothing() -> None:
    person = User.objects.create_user("rolf", is_active=False)
    person.groups.add(Group.objects.get(name="auditor"))

    assert not is_auditor(person)
    assert not is_viewer(person)


@pytest.mark.django_db
def test_role_exists_in_a_database_that_was_migrated_before_there_was_one() -> None:
    Group.objects.filter(name="auditor").delete()

    call_command("migrate", verbosity=0)

    assert Group.objects.filter(name="auditor").exists()
