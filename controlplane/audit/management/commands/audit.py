"""`manage.py audit`: list, export and verify the audit log."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection
from django.utils import timezone

from controlplane.audit.actions import do_restore_triggers
from controlplane.audit.chain_walk import Link, find_link
from controlplane.audit.exports import FORMATS, do_export
from controlplane.audit.guards import find_missing_triggers
from controlplane.audit.queries import AuditFilter, load_audit_page
from controlplane.audit.shell import get_shell_user
from controlplane.audit.verification import do_verify_whole
from controlplane.errors import InvalidRequest
from controlplane.paging import PAGE_ROWS, PAGE_ROWS_MAX
from workers.installation import format_command

_FILTERS = {
    "who": "only rows of this user or program",
    "what": "only this action; `service.` for all actions with this prefix",
    "object": "only rows about this object, usually the slug of a table",
    "result": "only rows with this result: requested, done, succeeded, failed, ...",
    "request-id": "only rows of this request",
}


class Command(BaseCommand):
    help = "List, export and verify the audit log."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        verify = actions.add_parser(
            "verify", help="verify the whole chain; ends with 1 if a row was changed or is missing"
        )
        verify.add_argument(
            "--expect",
            type=_link,
            metavar="SEQUENCE:HASH",
            help="a row that must exist, from a log line or an earlier run",
        )
        listed = actions.add_parser("list", help="list the newest rows, one per line")
        listed.add_argument("--limit", type=int, default=PAGE_ROWS, help=f"rows ({PAGE_ROWS})")
        export = actions.add_parser("export", help="export all rows to standard output")
        export.add_argument(
            "--as", dest="as_format", choices=FORMATS, default="csv", help="the format (csv)"
        )
        for asks in (listed, export):
            for name, words in _FILTERS.items():
                asks.add_argument(f"--{name}", default="", help=words)
            asks.add_argument("--since", type=_time, help="only rows from this time on (UTC)")
            asks.add_argument("--until", type=_time, help="only rows before this time (UTC)")
        actions.add_parser("guard", help="create missing triggers of the audit tables again")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['action']}")(options)
        except InvalidRequest as error:
            raise CommandError(str(error)) from error
        except DatabaseError as error:
            raise CommandError(
                f"the node's database is not ready, run `{format_command('up')}`: {error}"
            ) from error

    def _verify(self, options: dict[str, Any]) -> None:
        whole, problem = do_verify_whole(timezone.now())
        lines = [] if problem is None else [f"{problem.kind}: {problem.sentence}"]
        expected: Link | None = options["expect"]
        if expected is not None and find_link(expected.sequence) != expected:
            lines.append(f"missing: row {expected.sequence} does not exist with the expected hash")
        if missing := find_missing_triggers(connection):
            lines.append(
                f"guard: the database lacks {', '.join(missing)}; `audit guard` creates them"
            )
        if lines:
            raise CommandError("the audit log has been changed:\n" + "\n".join(lines), returncode=1)
        self.stdout.write(
            f"{whole.rows} rows are unchanged; the newest row is "
            f"{whole.through.sequence}:{whole.through.hash}"
        )

    def _list(self, options: dict[str, Any]) -> None:
        if not 1 <= options["limit"] <= PAGE_ROWS_MAX:
            raise InvalidRequest(f"the limit must be 1 to {PAGE_ROWS_MAX}", limit=options["limit"])
        for row in load_audit_page(_filter(options), limit=options["limit"]).rows:
            words = (
                f"{row.at:%Y-%m-%dT%H:%M:%S.%fZ}", str(row.sequence or "-"),
                row.who or "-", row.what, row.object, row.result, row.reason,
            )  # fmt: skip
            self.stdout.write("\t".join(_one_line(word) for word in words))

    def _export(self, options: dict[str, Any]) -> None:
        pieces = do_export(_filter(options), options["as_format"], by=get_shell_user())
        if options["as_format"] == "parquet":
            sys.stdout.buffer.writelines(pieces)
            return
        for piece in pieces:
            self.stdout.write(piece.decode(), ending="")

    def _guard(self, options: dict[str, Any]) -> None:
        names = do_restore_triggers(by=get_shell_user())
        self.stdout.write(f"created {', '.join(names)}" if names else "no trigger is missing")


def _filter(options: dict[str, Any]) -> AuditFilter:
    return AuditFilter(
        who=options["who"],
        what=options["what"],
        object=options["object"],
        result=options["result"],
        request_id=options["request_id"],
        since=options["since"],
        until=options["until"],
    )


def _time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(
            f"invalid time {text[:40]}: expected a form such as 2026-11-23T20:00"
        ) from error


def _link(text: str) -> Link:
    sequence, _, link_hash = text.partition(":")
    if not sequence.isascii() or not sequence.isdigit() or len(link_hash) != 64:
        raise argparse.ArgumentTypeError(f"expected SEQUENCE:HASH, got {text[:80]}")
    return Link(int(sequence), link_hash)


def _one_line(text: str) -> str:
    """Return the text for a terminal, with escaped control characters and line breaks."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
