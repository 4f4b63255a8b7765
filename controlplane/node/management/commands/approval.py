"""`manage.py approval`: what awaits a second person, approved of or declined by whoever has a shell
of this machine, under the name there.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.http import Http404

from controlplane.errors import ControlPlaneError
from controlplane.operations.approvals.deciding import Decider, do_approve, do_decline
from controlplane.operations.approvals.queries import ApprovalRow, approval_detail, approval_rows


class Command(BaseCommand):
    help = "Approve or decline operations of other users: `approval list`, `approval approve <id>`."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listed = actions.add_parser("list", help="list pending requests, oldest first")
        listed.add_argument("--decided", action="store_true", help="list decided requests instead")
        show = actions.add_parser("show", help="show the current plan of a request")
        approve = actions.add_parser(
            "approve", help="approve a request; the operation runs as the user who requested it"
        )
        approve.add_argument("--plan-hash", required=True, help="the hash of the plan, from `show`")
        decline = actions.add_parser("decline", help="decline a request; the operation never runs")
        for each in (show, approve, decline):
            each.add_argument("id", type=UUID, help="the id of the operation, from `list`")
        for each in (approve, decline):
            each.add_argument("--reason", required=True, help="the reason for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._handle(options)
        except (ControlPlaneError, Http404, PermissionDenied) as error:
            raise CommandError(str(error)) from error

    def _handle(self, options: dict[str, Any]) -> None:
        by = Decider.shell()
        match options["action"]:
            case "list":
                for row in approval_rows(by, is_pending=not options["decided"]):
                    self.stdout.write(_line(row))
            case "show":
                self._show(options["id"], by)
            case "approve":
                reason, plan_hash = options["reason"], options["plan_hash"]
                do_approve(options["id"], by=by, plan_hash=plan_hash, reason=reason)
                self.stdout.write(f"approved: {options['id']}")
            case _:
                do_decline(options["id"], by=by, reason=options["reason"])
                self.stdout.write(f"declined: {options['id']}")

    def _show(self, operation_id: UUID, by: Decider) -> None:
        detail = approval_detail(operation_id, by)
        self.stdout.write(_line(detail.row))
        for name, planned in detail.plan.items():
            self.stdout.write(f"  {name}: {planned}")
        if detail.has_changed:
            self.stdout.write("  the table has changed since: request the operation again")
        if detail.problem:
            self.stdout.write(f"  no plan: {detail.problem}")


def _line(row: ApprovalRow) -> str:
    """Parted by tabs."""
    by = f"by {row.decided_by}" if row.decided_by else f"until {row.expires_at:%Y-%m-%dT%H:%MZ}"
    words = (row.table_slug, row.action, f"requested by {row.requested_by}", row.decision, by)
    return "\t".join([str(row.operation), *words, row.reason])
