"""The user that a command runs as, and the checks of what that user may do.

Without `--as` a command runs as the user of the shell, and nothing is refused.
"""

from __future__ import annotations

from typing import Any, Final

from django.core.exceptions import PermissionDenied

from controlplane.accounts.roles import is_admin, is_auditor
from controlplane.audit.shell import act_as, get_acting_user, get_shell_user
from controlplane.operations.ask import Requester
from controlplane.tables.access import Permission, may, may_in_namespace
from controlplane.tables.grants import Granter
from controlplane.tables.models import Table
from controlplane.tables.row_access import row_access
from workers.installation import format_command

CHECKED: Final = frozenset(
    {
        *("approval", "grant", "operation", "rollback", "schedule", "sink", "sql", "table"),
        *("token", "user", "write"),
    }
)
"""Commands that check what the named user may do. All others are for admins everywhere, and `audit`
for auditors as well.
"""


def begin(name: str, *, command: str) -> None:
    """Run this command in the name of a user. Raises InvalidRequest for a user that there is not,
    PermissionDenied for a command that is not theirs.
    """
    act_as(name)
    user = get_acting_user()
    if user is None or command in CHECKED:
        return
    if not (is_admin(user) or (command == "audit" and is_auditor(user))):
        raise PermissionDenied(f"`{format_command(command)}` requires the admin role everywhere")


def requester() -> Requester:
    """Return who asks for operations."""
    return Requester(get_acting_user(), get_shell_user(), is_shell=True)


def granter() -> Granter:
    """Return who gives and takes rights."""
    return Granter(user=get_acting_user(), name=get_shell_user())


def registrant() -> dict[str, Any]:
    """Return who registers a table, as `do_register_table` takes it."""
    return {"by": get_acting_user(), "who": get_shell_user()}


def check_role(table: Table | None, permission: Permission) -> None:
    """Refuse, as PermissionDenied, a named user who may not do this to the table; None is one that
    is not registered, which is for admins everywhere.
    """
    user = get_acting_user()
    if user is None or (is_admin(user) if table is None else may(user, permission, table)):
        return
    raise PermissionDenied(f"this requires the {permission.role} role")


def check_namespace_role(namespace: str) -> None:
    """Refuse, as PermissionDenied, a named user who may not register tables there."""
    user = get_acting_user()
    if user is not None and not may_in_namespace(user, Permission.ADMINISTER, namespace):
        raise PermissionDenied(f"this requires the admin role in the namespace {namespace[:64]}")


def check_rows(table: Table | None) -> None:
    """Refuse, as PermissionDenied, a named user who does not see all rows of the table."""
    check_role(table, Permission.VIEW)
    user = get_acting_user()
    if user is not None and table is not None:
        row_access(user, table).check_all()
