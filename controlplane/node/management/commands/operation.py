"""`manage.py operation log <id>`: what the processes of an operation logged, also while it runs.
`manage.py operation fields`: the page of the manual about requests.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.http import Http404

from controlplane.audit.shell import get_acting_user
from controlplane.operations.descriptions.catalogue import requests_page
from controlplane.operations.log_queries import LEVELS, LINES_MAX, log_as_text, log_page
from controlplane.operations.models import Operation
from controlplane.operations.queries import OperationRow, access_operation, operation_detail
from controlplane.operations.query_sources import shown_whole
from controlplane.tables.access import Permission

EVERY_S = 1.0


class Command(BaseCommand):
    help = "Print the log of an operation, or the fields of each request."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        log = actions.add_parser("log", help="print the log of an operation, oldest line first")
        log.add_argument(
            "operation", type=UUID, help="the id of the operation, from its page or the API"
        )
        log.add_argument("--level", choices=LEVELS, default="", help="the minimum level")
        log.add_argument("--text", default="", help="only lines that contain this text")
        log.add_argument("--follow", action="store_true", help="continue until the operation ends")

        actions.add_parser("fields", help="print the page docs/requests.md")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "fields":
            self.stdout.write(requests_page(), ending="")
            return
        operation_id = options["operation"]
        operation = _operation(operation_id)
        is_whole = operation_id in shown_whole(get_acting_user(), [operation])
        if options["follow"]:
            self._follow(operation_id, options, is_whole=is_whole)
            return
        level, text = options["level"], options["text"]
        for line in log_as_text(operation_id, is_whole=is_whole, level=level, text=text):
            self.stdout.write(line, ending="")

    def _follow(self, operation_id: UUID, options: Mapping[str, Any], *, is_whole: bool) -> None:
        newest = 0
        while True:
            is_final = _row(operation_id).is_final  # First: what it said last is read after that.
            page = log_page(
                operation_id,
                is_whole=is_whole,
                level=options["level"],
                text=options["text"],
                after=newest,
                limit=LINES_MAX,
            )
            for row in page.rows:
                self.stdout.write(row.as_text)
            newest = page.newer or newest
            if is_final and not page.rows:
                return
            if not page.rows:
                time.sleep(EVERY_S)


def _operation(operation_id: UUID) -> Operation:
    """Raises CommandError where there is no such operation, or the named user does not see it."""
    _row(operation_id)
    user = get_acting_user()
    if user is None:
        return Operation.objects.select_related("table").get(pk=operation_id)
    try:
        return access_operation(user, operation_id, Permission.VIEW)
    except (Http404, PermissionDenied) as error:
        raise CommandError(str(error)) from error


def _row(operation_id: UUID) -> OperationRow:
    """Raises CommandError where there is no such operation."""
    operation = operation_detail(operation_id, None)
    if operation is None:
        raise CommandError(
            f"operation {operation_id} not found; the page Operations lists all operations"
        )
    return operation.row
