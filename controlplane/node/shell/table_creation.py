"""`manage.py table create`: a new table, of named columns or of those that a file has. Without a
key it shows what the file suggests, and changes nothing.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from controlplane.audit.shell import acting_user
from controlplane.errors import InvalidRequest
from controlplane.mirror.sync import sync_table
from controlplane.node.shell.identity import check_namespace_role, requester
from controlplane.node.shell.load_options import add_load_options, get_load_options
from controlplane.node.shell.own_process import NO_REASON, Say
from controlplane.operations.requesting import Given
from controlplane.operations.table_creation.actions import do_create_table
from controlplane.operations.table_creation.definition import TABLE_TYPES, Column, NewTable
from controlplane.operations.table_creation.suggesting import TableSuggestion, suggest_table
from controlplane.tables.models import DEFAULT_NAMESPACE
from workers.loading.options import comma_names


def add_table_creation(parser: ArgumentParser) -> None:
    parser.add_argument("location", help="absolute path under a configured root, or s3://...")
    parser.add_argument("--slug", required=True, help="short name for addresses")
    parser.add_argument("--name", default="", help="name for people; the slug when absent")
    parser.add_argument("--namespace", default=DEFAULT_NAMESPACE, help="the group of tables")
    parser.add_argument("--from", dest="path", default="", help="a .csv or .parquet file")
    add_load_options(parser)
    parser.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="'NAME TYPE [NOT NULL]'",
        help="a column, such as 'fare decimal(10,2)'; of a file, another type for one of its own",
    )
    parser.add_argument("--record-key", default="", help="columns that make a row: a,b")
    parser.add_argument("--partition-by", default="", help="columns: a,b")
    parser.add_argument("--ordering", default="", help="the column whose greatest value wins")
    parser.add_argument("--table-type", choices=TABLE_TYPES, default=TABLE_TYPES[0])
    parser.add_argument("--groups", default="", help="column groups, as JSON")
    parser.add_argument("--reason", default="", help="for the audit")


def create(options: Mapping[str, Any], say: Say) -> None:
    """Make the table. Raises ControlPlaneError; of an InvalidRequest the fields are said."""
    check_namespace_role(options["namespace"])
    columns = {column.name: column for column in map(column_of, options["column"])}
    if options["path"]:
        load = get_load_options(options)
        suggestion = suggest_table(options["path"], by=acting_user(), load=load)
        if not options["record_key"]:
            _show(suggestion, say)
            return
        own = {column.name: Column(column.name, column.type) for column in suggestion.columns}
        columns = own | columns
    new = NewTable(
        location=options["location"],
        slug=options["slug"],
        name=options["name"],
        namespace=options["namespace"],
        columns=list(columns.values()),
        record_key=comma_names(options["record_key"]),
        partition_by=comma_names(options["partition_by"]),
        ordering=options["ordering"],
        table_type=options["table_type"],
        groups=options["groups"],
    )
    by = requester()
    try:
        table = do_create_table(new, by=by, given=Given(reason=options["reason"] or NO_REASON))
    except InvalidRequest as error:
        _say_fields(error, say)
        raise
    sync_table(table)
    say(f"created and registered {table.slug} at {table.location}")


def column_of(text: str) -> Column:
    """`name type`, with `not null` behind it for a required one. Raises InvalidRequest."""
    name, _, rest = text.strip().partition(" ")
    kind = rest.strip()
    if required := kind.lower().endswith(" not null"):
        kind = kind[: -len(" not null")].strip()
    if not name or not kind:
        raise InvalidRequest("a column is written `name type` or `name type not null`", given=text)
    return Column(name, kind, required)


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
        verdict = "unique" if key.is_unique else f"{key.distinct} different"
        say(f"key\t{','.join(key.columns)}\t{verdict} in {suggestion.rows_sampled} rows, {whole}")
    for name in suggestion.partition_by:
        say(f"partition\t{name}")
    for name in suggestion.ordering:
        say(f"ordering\t{name}")
    say("nothing is made; name the key by --record-key")
