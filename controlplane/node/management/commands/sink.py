"""`manage.py sink ...`: run a Kafka sink in the foreground; look at one, stop it, relaunch it."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from controlplane.audit.shell import get_acting_user
from controlplane.errors import ControlPlaneError
from controlplane.mirror.storage import engine_table
from controlplane.mirror.sync import sync_table
from controlplane.node.shell import sink_replay, sink_reset, sinks
from controlplane.node.shell.arguments import (
    add_confirmation,
    add_fields,
    add_yes,
    parse_pair,
    read_texts,
)
from controlplane.node.shell.identity import check_role
from controlplane.node.shell.sinks import Place
from controlplane.operations.actions import do_relaunch_sink
from controlplane.operations.descriptions.field import REASON
from controlplane.operations.descriptions.sinks import (
    RELAUNCH_SINK,
    REPLAY,
    RESET_SINK,
    SINK_PARTS,
    STOP_SINK,
)
from controlplane.tables.access import Permission
from controlplane.tables.locations import checked_location
from controlplane.tables.models import Table
from workers.errors import LakehouseError
from workers.installation import format_command
from workers.ports import system_ports
from workers.storage.opener import open_storage
from workers.table.table import open_

EXAMPLE = """
examples:
  %(prog)s run orders --topic orders --bootstrap localhost:9092
  %(prog)s run /data/orders --topic orders --set hoodie.sink.format=avro
  %(prog)s status orders
  %(prog)s offsets orders orders
  %(prog)s stop orders orders --wait 90
  %(prog)s reset orders --topic orders --to earliest
"""
_ROLES = {
    "run": Permission.OPERATE,
    "stop": Permission.OPERATE,
    "relaunch": Permission.OPERATE,
    "reset": Permission.ADMINISTER,
    "replay": Permission.ADMINISTER,
}
"""What a named user needs; to look at a sink, less."""


class Command(BaseCommand):
    help = "Run, show, stop, relaunch or reset a Kafka sink of a table."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.formatter_class = RawDescriptionHelpFormatter
        parser.epilog = EXAMPLE
        return parser

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        run = _action(
            actions, "run", "run a sink in the foreground until it is stopped", sink=False
        )
        _add_options(run)
        run.add_argument(
            "--own-spark",
            action="store_true",
            help="use a separate Spark application even if the node's Spark server runs",
        )
        status = _action(
            actions,
            "status",
            "show the state of sinks and the partitions that have not reported",
            sink=False,
        )
        status.add_argument("sink", nargs="?", default="", help="the id of the sink (default: all)")
        _action(actions, "offsets", "print the local, table and Kafka offsets of each partition")
        stop = _action(actions, "stop", "stop a sink after its transaction, or at once")
        stop.add_argument("--hard", action="store_true", help="abort the transaction")
        stop.add_argument(
            "--wait",
            type=float,
            default=0,
            help="wait up to this many seconds until the sink has stopped",
        )
        add_fields(stop, [STOP_SINK["reason"]])
        relaunch = _action(
            actions, "relaunch", "relaunch a sink with the options of its last launch on this node"
        )
        add_fields(relaunch, RELAUNCH_SINK.fields)
        relaunch.add_argument(
            "--user", default="admin", help="the user who requests the operation (admin)"
        )
        reset = _action(
            actions,
            "reset",
            "set the offsets where a sink continues; prints the plan first",
            sink=False,
        )
        _add_options(reset)
        add_fields(reset, [RESET_SINK["to"]])
        add_confirmation(reset)
        replay = _action(
            actions, "replay", "send the dead letters of a sink to their topic again", sink=False
        )
        _add_options(replay)
        replay.add_argument(
            "--directory",
            default="",
            help="the directory of the dead letters (<table>-dead-letters)",
        )
        add_fields(replay, [REPLAY["letters"], REPLAY["cause"], REASON])
        add_yes(replay)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._act(options)
        except (ControlPlaneError, LakehouseError, PermissionDenied) as error:
            raise CommandError(str(error)) from error

    def _act(self, options: Mapping[str, Any]) -> None:
        say = self.stdout.write
        place = _place(options["table"])
        check_role(place.row, _ROLES.get(options["action"], Permission.VIEW))
        match options["action"]:
            case "run":
                sinks.run(place, _given(options), is_own=options["own_spark"], say=say)
            case "status":
                sinks.show_status(place.table, options["sink"], say)
            case "offsets":
                sinks.show_offsets(place.table, options["sink"], say)
            case "stop":
                if place.row is not None:
                    sync_table(place.row)
                sinks.stop(
                    place,
                    options["sink"],
                    is_hard=options["hard"],
                    wait_s=options["wait"],
                    reason=options["reason"],
                    say=say,
                )
            case "relaunch":
                self._relaunch(place, options)
            case "reset":
                sink_reset.reset(
                    place,
                    _given(options),
                    options["to"],
                    is_confirmed=options["yes"],
                    plan_hash=options["plan_hash"],
                    reason=options["reason"],
                    say=say,
                )
            case _:
                sink_replay.replay(
                    place,
                    _given(options),
                    letters=options["letter"],
                    cause=options["cause"],
                    directory=options["directory"],
                    is_confirmed=options["yes"],
                    reason=options["reason"],
                    say=say,
                )

    def _relaunch(self, place: Place, options: Mapping[str, Any]) -> None:
        by = get_acting_user() or User.objects.filter(username=options["user"]).first()
        if place.row is None or by is None:
            raise CommandError(
                "a relaunch requires a registered table and an existing user: check the slug "
                "and --user"
            )
        operation = do_relaunch_sink(place.row, options["sink"], by=by, reason=options["reason"])
        self.stdout.write(f"queued as operation {operation.pk}; the node launches it while it runs")


def _action(actions: Any, name: str, text: str, *, sink: bool = True) -> ArgumentParser:
    parser: ArgumentParser = actions.add_parser(name, help=text, description=text)
    parser.add_argument("table", help="the slug of a registered table, or its location")
    if sink:
        parser.add_argument("sink", help="the id of the sink")
    return parser


def _add_options(parser: ArgumentParser) -> None:
    # A reset and a replay name a sink by its id as well.
    add_fields(parser, [replace(part, is_needed=False) for part in SINK_PARTS])
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of the sink, of writes or of table services; may be repeated",
    )


def _given(options: Mapping[str, Any]) -> dict[str, str]:
    return read_texts(options, SINK_PARTS) | dict(map(parse_pair, options["set"]))


def _place(named: str) -> Place:
    """By location also where there is no node. Raises CommandError, InvalidRequest."""
    location = checked_location(named) if named.startswith(("/", "s3://")) else ""
    criterion = {"location": location} if location else {"slug": named}
    try:
        row = Table.objects.filter(**criterion).first()
    except DatabaseError:  # There is no node, so nothing is registered.
        row = None
    if row is not None:
        return Place(engine_table(row), row)
    if not location:
        raise CommandError(
            f"table {named} not found; `{format_command('table list')}` lists all tables"
        )
    return Place(open_(open_storage(location), system_ports()), None)
