"""Threat T25: an admin who abuses the audit's database. Deleting or editing a row is refused by the
database; where that was taken out of the way, the chain shows it, to the command and to the page.
"""

from __future__ import annotations

import io

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone

from controlplane.audit.actions import do_append_to_chain, do_record
from controlplane.audit.guards import remove
from controlplane.audit.verification import do_verify_round

STATEMENTS = (
    "DELETE FROM audit_auditevent WHERE sequence = 2",
    "UPDATE audit_auditevent SET who = 'somebody else' WHERE sequence = 2",
)


@pytest.fixture
def superuser(db: None) -> User:
    return User.objects.create_superuser("root", password="a long password")


@pytest.fixture
def _rows(db: None) -> None:
    for result in ("requested", "succeeded", "requested"):
        do_record(who="mallory", what="operation.rollback", subject="trips", result=result)
    do_append_to_chain()


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.usefixtures("_rows")
@pytest.mark.parametrize("statement", STATEMENTS, ids=["delete", "edit"])
def test_a_row_is_neither_deleted_nor_edited_unseen(statement: str, superuser: User) -> None:
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        execute(statement)
    call_command("audit", "verify", stdout=io.StringIO())

    remove(connection)
    execute(statement)

    with pytest.raises(CommandError, match=r"has been changed:\n(missing|changed): row 2"):
        call_command("audit", "verify", stdout=io.StringIO())
    do_verify_round(timezone.now())
    client = Client()
    client.force_login(superuser)
    assert "The audit log has been changed: row 2" in client.get("/audit").content.decode()
    chain = client.get("/api/v1/audit/chain/").json()
    assert (chain["verdict"], chain["problem_sequence"]) == ("bad", 2)
