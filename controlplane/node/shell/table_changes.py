"""`manage.py table rename|move|relocate|unregister`: what is registered of a table, changed by
whoever has this shell. Unregistering shows first what goes and what stays.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from typing import Any, Final

from controlplane.node.shell.arguments import add_fields, add_yes
from controlplane.node.shell.identity import requester
from controlplane.node.shell.own_process import NO_REASON, Say
from controlplane.operations.ask import Requester
from controlplane.operations.descriptions.field import REASON
from controlplane.operations.descriptions.tables import CHANGE_TABLE
from controlplane.operations.requesting import Given
from controlplane.operations.table_changes.actions import (
    TableChange,
    do_change_table,
    do_unregister_table,
)
from controlplane.operations.table_changes.hanging import TableChangePlan, table_change_plan
from controlplane.tables.models import Table

TABLE_CHANGES: Final = ("rename", "move", "relocate", "unregister")


def add_table_changes(add_parser: Callable[..., ArgumentParser]) -> None:
    """`add_parser` as of argparse's subparsers."""
    rename = _parser(add_parser, "rename", "change the name or slug of a table")
    rename.add_argument("--slug", dest="new_slug", help=CHANGE_TABLE["slug"].help)
    rename.add_argument("--name", dest="new_name", help=CHANGE_TABLE["name"].help)
    move = _parser(add_parser, "move", "move a table to another namespace")
    move.add_argument("namespace", help=CHANGE_TABLE["namespace"].help)
    relocate = _parser(
        add_parser, "relocate", "set the new location of a table whose directory was moved"
    )
    relocate.add_argument("location", help=CHANGE_TABLE["location"].help)
    unregister = _parser(add_parser, "unregister", "unregister a table; its files are kept")
    add_yes(unregister)


def change_table(table: Table, action: str, options: Mapping[str, Any], say: Say) -> None:
    """Change the register as the command says. Raises ControlPlaneError."""
    by = requester()
    given = Given(reason=options["reason"] or NO_REASON, typed_name=table.slug)
    if action == "unregister":
        _unregister(table, by, given, say, is_confirmed=options["yes"])
        return
    changed = do_change_table(table, _change(action, options), by=by, given=given)
    say(f"{changed.slug}\t{changed.name}\t{changed.namespace}\t{changed.location}")


def _parser(add_parser: Callable[..., ArgumentParser], name: str, text: str) -> ArgumentParser:
    parser = add_parser(name, help=text, description=text)
    parser.add_argument("slug", help="the slug of the table")
    add_fields(parser, [REASON])
    return parser


def _change(action: str, options: Mapping[str, Any]) -> TableChange:
    match action:
        case "rename":
            return TableChange(name=options["new_name"], slug=options["new_slug"])
        case "move":
            return TableChange(namespace=options["namespace"])
        case _:
            return TableChange(location=options["location"])


def _unregister(table: Table, by: Requester, given: Given, say: Say, *, is_confirmed: bool) -> None:
    _show(table_change_plan(table), say)
    if not is_confirmed:
        say("nothing was changed; --yes unregisters the table")
        return
    done = do_unregister_table(table, by=by, given=given)
    say(
        f"unregistered {done.slug}: {done.rows_deleted} rows of the node deleted; files at "
        f"{done.location} kept"
    )


def _show(plan: TableChangePlan, say: Say) -> None:
    for hanging in plan.goes:
        say(f"deleted\t{hanging.rows}\t{hanging.what}")
    say(f"kept\t{plan.audit_rows}\trows of the audit")
    say(
        f"kept\t{plan.file_groups}\tfile groups, {plan.bytes} bytes, and all other files of "
        "the table"
    )
    for warning in plan.warnings:
        say(f"warning: {warning}")
    for blocker in plan.blockers:
        say(f"blocked: {blocker}")
