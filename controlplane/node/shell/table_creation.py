"""`manage.py table create`: a new table, of named columns or of those that a file has. Without a
key it shows what the file suggests, and changes nothing.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from controlplane.audit.shell import get_acting_user
from controlplane.errors import InvalidRequest
from controlplane.mirror.sync import sync_table
from controlplane.node.shell.arguments import add_fields
from controlplane.node.shell.identity import check_namespace_role, requester
from controlplane.node.shell.load_options import add_load_options, get_load_options
from controlplane.node.shell.own_process import NO_REASON, Say
from controlplane.operations.descriptions.tables import CREATE_TABLE
from controlplane.operations.requesting import Given
from controlplane.operations.table_creation.actions import do_create_table
from controlplane.operations.table_creation.definition import Column, NewTable, parse_column
from controlplane.operations.table_creation.suggesting import TableSuggestion, suggest_table


def add_table_creation(parser: ArgumentParser) -> None:
    parser.add_argument("--from", dest="path", default="", help="a .csv or .parquet file")
    add_load_options(parser)
    # A file suggests columns and a key.
    add_fields(
        parser,
        [
            replace(field, is_needed=field.is_needed and field.name != "record_key")
            for field in CREATE_TABLE.fields
            if field.name != "columns"
        ],
    )
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="'NAME TYPE [NOT NULL]'",
        help=(
            "a column, such as 'fare decimal(10,2)'; with --from, another type for a column "
            "of the file"
        ),
    )


def create(options: Mapping[str, Any], say: Say) -> None:
    """Make the table. Raises ControlPlaneError; of an InvalidRequest the fields are said."""
    check_namespace_role(options["namespace"])
    columns = {column.name: column for column in map(parse_column, options["column"])}
    if options["path"]:
        load = get_load_options(options)
        suggestion = suggest_table(options["path"], by=get_acting_user(), load=load)
        if not options["record_key"]:
            _show(suggestion, say)
            return
        own = {column.name: Column(column.name, column.type) for column in suggestion.columns}
        columns = own | columns
    new = NewTable(
        columns=list(columns.values()),
        **{name: options[name] for name in CREATE_TABLE.names if name not in ("columns", "reason")},
    )
    by = requester()
    try:
        table = do_create_table(new, by=by, given=Given(reason=options["reason"] or NO_REASON))
    except InvalidRequest as error:
        _say_fields(error, say)
        raise
    sync_table(table)
    say(f"created and registered {table.slug} at {table.location}")


def _say_fields(error: InvalidRequest, say: Say) -> None:
    fields = error.values.pop("fields", {})
    assert isinstance(fields, dict), fields
    for name, sentences in fields.items():
        for sentence in sentences:
            say(f"{name}: {sentence}")


def _show(suggestion: TableSuggestion, say: Say) -> None:
    for name, value in suggestion.options.items():
        say(f"option\t{name}={value}")
    for note in suggestion.notes:
        say(f"note\t{note}")
    for column in suggestion.columns:
        say(f"column\t{column.name}\t{column.type}\t{column.distinct} values, {column.nulls} nulls")
    whole = "the whole file" if suggestion.is_whole else "the first rows"
    for key in suggestion.keys:
        verdict = "unique" if key.is_unique else f"{key.distinct} distinct"
        say(f"key\t{','.join(key.columns)}\t{verdict} in {suggestion.rows_sampled} rows, {whole}")
    for name in suggestion.partition_by:
        say(f"partition\t{name}")
    for name in suggestion.ordering:
        say(f"ordering\t{name}")
    say("nothing was created; choose the key with --record-key")
