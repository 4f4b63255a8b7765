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
    help = "Approve of what somebody else asked for: `approval list`, `approval approve <id>`."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        listed = actions.add_parser("list", help="what is pending, the oldest first")
        listed.add_argument("--decided", action="store_true", help="what was decided instead")
        show = actions.add_parser("show", help="what would be done, as it is now")
        approve = actions.add_parser("approve", help="it runs, in the name of who asked for it")
        approve.add_argument("--plan-hash", required=True, help="as `show` says it")
        decline = actions.add_parser("decline", help="it ends, and never runs")
        for each in (show, approve, decline):
            each.add_argument("id", type=UUID, help="of the operation, as `list` says it")
        for each in (approve, decline):
            each.add_argument("--reason", required=True, help="for the audit")

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
            self.stdout.write("  the table changed since: it has to be asked for anew")
        if detail.problem:
            self.stdout.write(f"  no plan now: {detail.problem}")


def _line(row: ApprovalRow) -> str:
    """Parted by tabs."""
    by = f"by {row.decided_by}" if row.decided_by else f"until {row.expires_at:%Y-%m-%dT%H:%MZ}"
    words = (row.table_slug, row.action, f"asked by {row.requested_by}", row.decision, by)
    return "\t".join([str(row.operation), *words, row.reason])
