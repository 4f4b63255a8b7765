"""`manage.py write`: load files into a table, through Spark or not, at once or as streams; or the
rows of a database. A file in a bucket, and a database, are reached by a named connection.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.core.management import BaseCommand, CommandError

from controlplane.audit.shell import get_acting_user
from controlplane.errors import ControlPlaneError
from controlplane.node.shell.arguments import add_fields, add_yes
from controlplane.node.shell.load_options import (
    COPIED_BYTES_MAX,
    ONE_PATH,
    LoadProgress,
    add_format,
    copy_objects,
    files_named,
    get_load_options,
    get_request_path,
    get_table_name,
)
from controlplane.node.shell.load_target import LoadTarget
from controlplane.node.shell.table_services import ServiceCommand, plan_and_run
from controlplane.operations.connection_sources import (
    POSTGRESQL,
    bucket_files,
    database_query,
)
from controlplane.operations.descriptions.write import PLANNED_OPERATIONS, WRITE
from controlplane.operations.source_places import checked_file_of_shell, checked_source
from workers.concurrency.outcome import Committed, describe_outcome
from workers.errors import LakehouseError
from workers.jobs import OPERATIONS, WriteJob
from workers.lakehouse import LakehouseTable
from workers.loading.options import load_options, options_as_text
from workers.loading.source_files import files_here
from workers.options.write_keys import MEMORY_KEY
from workers.ports import RandomIds, system_ports
from workers.storage.source_places import check_in_no_table
from workers.table.schema_history import load_schema

if TYPE_CHECKING:
    from workers.loading.reader import FollowedRows, InputFile
    from workers.spark.load import StreamColumns

MEMORY_MB = 256
MERGED_SHARE_WARNED = 0.05
"""Above this share of rows with equal keys the key is probably not the one that was meant."""

_HELPS = {
    "operation": "how rows are written; an operation that deletes data prints its plan first, and "
    "runs with --yes or --plan-hash"
}
_LOADED = [
    replace(
        field,
        is_needed=False,
        help=_HELPS.get(field.name, field.help),
        choices=[choice for choice in field.choices if choice.value in OPERATIONS],
    )
    for field in WRITE.all_fields()
]
"""What this command asks as the other ways do; a file or a query may be absent, not both."""
EXAMPLE = """
example (hourly weather, three airports):
  %(prog)s ../shared/data/weather.csv \\
      --key-from origin,time_hour --partition-by origin --ordering time_hour
the same as three streams, written at once by three clients:
  ... --streams "temperature=temp,dewp,humid;wind=wind_dir,wind_speed,wind_gust;rest=*"
rows of a database, by the connection erp:
  %(prog)s --connection erp --source-table public.orders --name orders
"""


class Command(BaseCommand):
    help = "Load files into a table, through Spark or with --no-spark in this process."
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        from argparse import RawDescriptionHelpFormatter

        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.formatter_class = RawDescriptionHelpFormatter
        parser.epilog = EXAMPLE
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "files",
            nargs="*",
            metavar="file",
            help=(
                "files, a folder, or patterns such as 'd/*.csv'; or one path in a bucket: "
                "s3://bucket/..., or with --connection below its prefix. CSV, JSON lines or "
                "Parquet; CSV and JSON also as .gz or .zst"
            ),
        )
        add_fields(parser, _LOADED)
        parser.add_argument(
            "--table", help="the location of the table (default: <first root>/<name>)"
        )
        parser.add_argument("--name", help="the name of the table (default: that of the file)")
        parser.add_argument("--record-key", default="id", help="the key column (default: id)")
        parser.add_argument("--partition-by", default="", help="the partition column")
        parser.add_argument(
            "--ordering",
            default="",
            help="the ordering column: the row with the greatest value wins",
        )
        add_format(parser)
        parser.add_argument(
            "--streams",
            default="",
            help='streams that are written concurrently, with their columns: "a=x,y;b=*"',
        )
        parser.add_argument(
            "--table-type",
            choices=["COPY_ON_WRITE", "MERGE_ON_READ"],
            help="the type of a new table",
        )
        parser.add_argument(
            "--no-spark", action="store_true", help="write with Arrow in this process"
        )
        parser.add_argument(
            "--memory-mb",
            type=int,
            default=MEMORY_MB,
            help="with --no-spark, the memory for rows; more rows use temporary files in TMPDIR",
        )
        add_yes(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with TemporaryDirectory(prefix="sluice-write-") as scratch:
                if options["source_table"] or options["query"]:
                    self._write_database(options, Path(scratch))
                else:
                    self._write(options, Path(scratch))
        except (ControlPlaneError, LakehouseError, PermissionDenied) as error:
            raise CommandError(str(error)) from error

    def _write_database(self, options: Mapping[str, Any], scratch: Path) -> None:
        """In this process, whose memory the rows must fit in."""
        from workers.files.base_file import read_parquet
        from workers.postgresql import write_rows
        from workers.query_inputs import limits_of_rows
        from workers.spark.load import parse_streams

        if options["files"] or options["key_from"] or not options["name"]:
            raise CommandError(
                "rows of a database require --name, and allow neither a file nor --key-from"
            )
        source = {
            "kind": POSTGRESQL,
            "connection": options["connection"],
            "table": options["source_table"],
            "query": options["query"],
        }
        target = LoadTarget(options, options["name"], self)
        query, connection = database_query(source, target.find_namespace())
        limits, rows_max = limits_of_rows(os.environ)
        file = scratch / "rows.parquet"
        write_rows(connection, query, file, rows_max=rows_max, limits=limits, environ=os.environ)
        with file.open("rb") as stream:
            rows = read_parquet(stream)
        with target.open_audited(target.find_table(), rows.schema) as table:
            shared = _get_shared_columns(table)
            streams = parse_streams(options["streams"], present=rows.column_names, shared=shared)
            self._write_arrow(table, rows, streams, options["operation"], shared)
        self._end(target, table)

    def _files(self, options: Mapping[str, Any], scratch: Path) -> list[InputFile]:
        """The files that patterns and folders name, or the copy of one where a bucket has it."""
        from workers.loading.reader import InputFile

        if not options["files"]:
            raise CommandError("expected a file to load, or a query of a connection")
        if not options["connection"]:
            if objects := copy_objects(options["files"], scratch, options["format"] or ""):
                return objects
            paths = [path for text in options["files"] for path in files_named(text)]
            for path in paths:
                checked_file_of_shell(str(path))
                if (user := get_acting_user()) is not None:
                    checked_source(str(path), user)
            return [InputFile.of(path) for path in paths]
        if len(options["files"]) > 1:
            raise CommandError(ONE_PATH)
        (path,) = options["files"]
        source = {"kind": "csv", "connection": options["connection"], "path": path}
        namespace = LoadTarget(options, get_table_name(path), self).find_namespace()
        files, connection = bucket_files(source, namespace, options["format"] or "")
        check_in_no_table(files[0].place, connection)
        return files_here(files, scratch, bytes_max=COPIED_BYTES_MAX, connection=connection)

    def _write(self, options: Mapping[str, Any], scratch: Path) -> None:
        from workers.loading.reader import FollowedRows, open_rows, read_up_to, spool_rows
        from workers.spark.load import parse_streams

        files = self._files(options, scratch)
        target = LoadTarget(options, get_table_name(files[0].name), self)
        requested = target.find_load_options(get_load_options(options))
        target.check_decoded_size(requested)
        if options["operation"] in PLANNED_OPERATIONS:
            self._write_planned(target, files, requested)
            return
        table = target.find_table()
        existing = load_schema(table.table) if table is not None else None
        progress = LoadProgress(self.stderr, system_ports().clock, sum(file.size for file in files))
        rows = open_rows(
            files,
            load_options(requested),
            existing.arrow if existing is not None else None,
            keys=(options["record_key"],),
            on_batch=progress.show,
        )
        if table is None:
            target.check_columns(rows.schema.names)
        read: pa.Table | None = None
        spool = scratch / "rows.parquet"
        # Everything is read before a table is made, so that a refused load leaves none. Only what
        # does not fit in memory is read while it is written; a table that is new goes with it.
        followed = FollowedRows(rows, tuple(rows.schema.names), progress.show)
        if options["no_spark"]:
            read = read_up_to(followed, options["memory_mb"] << 20)
        else:
            spool_rows(rows, spool, progress.show)
        progress.end()
        with target.open_audited(table, rows.schema) as table:
            shared = _get_shared_columns(table)
            names = rows.schema.names
            streams = parse_streams(options["streams"], present=names, shared=shared)
            if options["no_spark"]:
                some = followed if read is None else read
                self._write_arrow(
                    table, some, streams, options["operation"], shared, options["memory_mb"]
                )
                progress.end()
            else:
                self._write_spark(table, spool, streams, options["operation"], rows.counts.rows)
        for sentence in rows.counts.sentences:
            self.stdout.write(f"    {sentence}")
        self._end(target, table)

    def _end(self, target: LoadTarget, table: LakehouseTable) -> None:
        target.register()
        target.keep_load_options(get_load_options(target.options))
        keys = list(table.table.config.record_key[:1])
        count = sum(batch.num_rows for batch in table.scan(keys).to_batches())
        self.stdout.write(f"rows in the table: {count} ({table.location})")

    def _write_planned(
        self, target: LoadTarget, files: Sequence[InputFile], requested: Mapping[str, Any]
    ) -> None:
        """What takes data away: shown first, and carried out when it was confirmed."""
        options = target.options
        if options["connection"] or len(options["files"]) > 1:
            raise CommandError(
                "an operation that deletes data requires one path without a connection: a "
                "file, a folder, or a pattern such as 'd/*.csv'"
            )
        path = get_request_path(options["files"][0], files)
        row = target.find_row()
        if row is None:
            raise CommandError(
                f"no table is registered at {target.location}: an operation that deletes data "
                "requires a registered table"
            )
        command = ServiceCommand(
            service=options["operation"],
            parameters={"path": path, **options_as_text(requested)},
            reason=options["reason"],
            is_confirmed=options["yes"],
            plan_hash=options["plan_hash"],
            is_dry=False,
        )
        plan_and_run(row, command, self.stdout.write)

    def _write_arrow(
        self,
        table: LakehouseTable,
        rows: pa.Table | FollowedRows,
        streams: list[StreamColumns],
        operation: str,
        shared: tuple[str, ...],
        memory_mb: int = MEMORY_MB,
    ) -> None:
        clock = system_ports().clock
        parts: list[tuple[str | None, pa.Table | FollowedRows]] = [(None, rows)]
        if streams:
            parts = [(one.name, _select(rows, (*shared, *one.columns))) for one in streams]
        options = {MEMORY_KEY: str(memory_mb), **marker_options()}
        for stream, part in parts:
            started_s = clock.monotonic_s()
            outcome = table.write(
                part,
                operation=operation,
                stream=stream,
                options={"sluice.writer.name": stream or "load", **options},
            )
            writer = stream or "load"
            if not isinstance(outcome, Committed):
                raise CommandError(f"{writer} was not committed: {describe_outcome(outcome)}")
            took_s = clock.monotonic_s() - started_s
            rows_read = part.num_rows if isinstance(part, pa.Table) else part.counts.rows
            self.stdout.write(f"  {writer}: {describe_outcome(outcome)}, in {took_s:.1f} s")
            self._print_rows(table, rows_read, outcome.rows)

    def _write_spark(
        self,
        table: LakehouseTable,
        file: Path,
        streams: list[StreamColumns],
        operation: str,
        rows_read: int,
    ) -> None:
        from workers.spark.load import Load, run_together

        run_root = settings.SLUICE_HOME / "run" / "operations"
        load = Load(
            table=table.table,
            file=file,
            run_root=run_root,
            operation=operation,
            options=marker_options(),
        )
        clock = system_ports().clock
        with self._spark() as environment:
            environment["SLUICE_SOURCE_ROOTS"] = str(file.parent)
            jobs = load.jobs(streams, RandomIds())
            writers = (
                "1 Spark client writes" if len(jobs) == 1 else f"{len(jobs)} Spark clients write"
            )
            self.stdout.write(f"{writers}; logs are under {run_root}")
            started_s = clock.monotonic_s()

            def on_end(job: WriteJob, ending: Mapping[str, Any]) -> None:
                writer = job.options["sluice.writer.name"]
                took_s = clock.monotonic_s() - started_s
                if ending["state"] != "succeeded":
                    self.stderr.write(f"  {writer}: {ending['state']}: {ending['message']}")
                    return
                self.stdout.write(f"  {writer}: {ending['message']}, in {took_s:.1f} s")
                if ending.get("outcome"):
                    self._print_rows(table, rows_read, ending["outcome"]["rows"])

            if not run_together(jobs, environment, clock, on_end=on_end):
                raise CommandError(
                    "at least one writer did not commit: see the reasons above, and the "
                    f"logs under {run_root}"
                )

    def _print_rows(self, table: LakehouseTable, rows_read: int, written: int) -> None:
        """Print what happened to the file's rows, with a warning if the key is probably wrong."""
        merged_away = rows_read - written
        self.stdout.write(
            f"    {rows_read} rows read, {merged_away} merged away, {written} written"
        )
        if merged_away > rows_read * MERGED_SHARE_WARNED:
            key = ", ".join(table.table.config.record_key)
            self.stderr.write(
                f"warning: {merged_away} of {rows_read} rows have the same key ({key}) as "
                "another row of the file; only one row of each key is kept. To keep every "
                "row, choose a unique key: --record-key for one column, --key-from for "
                "several"
            )

    @contextmanager
    def _spark(self) -> Iterator[dict[str, str]]:
        """The environment of drivers: the node's Connect server, or one of our own meanwhile."""
        from workers.spark.connect_server import connect_server, is_listening

        roots = os.pathsep.join(settings.SLUICE_TABLE_ROOTS)
        environment = {**os.environ, "SLUICE_TABLE_ROOTS": roots}
        remote = os.environ.get("SLUICE_SPARK_REMOTE", "")
        if remote and is_listening(remote):
            yield {**environment, "SLUICE_SPARK_REMOTE": remote}
            return
        self.stdout.write("no Spark Connect server is running; starting one for this load")
        environment["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = RandomIds().token()
        with (
            TemporaryDirectory(prefix="sluice-spark-") as work_dir,
            connect_server(Path(work_dir), environment=environment) as server,
        ):
            yield {**environment, "SLUICE_SPARK_REMOTE": server.remote}


def marker_options() -> dict[str, str]:
    """Batched markers where the node's marker server answers, else direct ones."""
    from workers.spark.connect_server import answers_at

    parts = urlsplit(os.environ.get("SLUICE_MARKER_URL", ""))
    if parts.hostname and parts.port and answers_at(parts.hostname, parts.port):
        return {"hoodie.write.markers.type": "timeline_server_based"}
    return {"hoodie.write.markers.type": "direct"}


def _get_shared_columns(table: LakehouseTable) -> tuple[str, ...]:
    config = table.table.config
    return (*config.record_key, *config.partition_by, *config.ordering)


def _select(rows: pa.Table | FollowedRows, names: tuple[str, ...]) -> pa.Table | FollowedRows:
    if isinstance(rows, pa.Table):
        return rows.select(list(names))
    return replace(rows, names=names)
