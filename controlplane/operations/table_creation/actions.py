"""Making a table: everything is checked first, then it is registered and laid down, or neither."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied

from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest, NotAllowedNow, StorageUnavailable
from controlplane.operations.ask import Requester
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.operations.requesting import Given
from controlplane.operations.table_changes.sent_twice import digest_of, known_request, note_request
from controlplane.operations.table_creation.definition import (
    CheckedTable,
    NewTable,
    checked_table,
)
from controlplane.tables.access import Permission, may_everywhere
from controlplane.tables.actions import do_register_table, registrations_held
from controlplane.tables.models import Table, TableRequest
from workers.errors import InvalidInput, LakehouseError, TableExists


def do_create_table(new: NewTable, *, by: Requester, given: Given) -> Table:
    """An empty table at its location, registered. Its reason may be left out.

    Raises PermissionDenied; InvalidRequest, with `fields` where something is wrong with one, before
    anything is written; KeyReused; StorageUnavailable, and then nothing is registered. A process
    that dies between the two leaves a table that is not registered, and can be.
    """
    if by.user is not None and not may_everywhere(by.user, Permission.ADMINISTER):
        raise PermissionDenied(f"this requires the {Permission.ADMINISTER.role} role")
    if len(given.reason) > REASON_CHARS_MAX:
        raise InvalidRequest("the reason is too long", most=REASON_CHARS_MAX)
    digest = digest_of("create", None, given, new.body())
    if (known := known_request(by, given.idempotency_key, digest)) is not None:
        return _made_before(known)
    checked = checked_table(new)
    with registrations_held():
        if (known := known_request(by, given.idempotency_key, digest)) is not None:
            return _made_before(known)
        table = do_register_table(
            location=checked.location,
            slug=new.slug,
            name=new.name,
            namespace=new.namespace,
            by=by.user,
        )
        note_request(by, given.idempotency_key, digest, table)
        do_record(
            who=by.name,
            what="table.create",
            subject=table.slug,
            result="done",
            reason=given.reason.strip(),
            details={
                "location": table.location,
                "columns": len(new.columns),
                "record_key": list(new.record_key),
                "partition_by": list(new.partition_by),
                "table_type": new.table_type,
            },
        )
        # Last: what the database refuses has left no file.
        _lay_down(checked)
    return table


def _lay_down(checked: CheckedTable) -> None:
    from workers.lakehouse import create_table  # Late: a web process seldom makes a table.

    try:
        create_table(checked.location, **checked.arguments)
    except TableExists as error:
        words = "a table lies here already: register it"
        raise InvalidRequest(
            "the table cannot be created like this", fields={"location": [words]}
        ) from error
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
    except (LakehouseError, OSError) as error:
        raise StorageUnavailable(
            "the table cannot be created in storage",
            location=checked.location,
            why=str(error)[:300],
        ) from error


def _made_before(known: TableRequest) -> Table:
    table = Table.objects.filter(pk=known.table_key).first()
    if table is None:
        raise NotAllowedNow("the table of this request was unregistered in the meantime")
    return table
