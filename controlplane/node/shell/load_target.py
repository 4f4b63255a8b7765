"""The table that `manage.py write` loads into: an existing one, or a new one that it registers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.management import BaseCommand, CommandError
from django.db import DatabaseError, OperationalError, transaction

from controlplane.audit.actions import do_record
from controlplane.audit.shell import get_acting_user, get_shell_user
from controlplane.errors import ControlPlaneError
from controlplane.node.shell.identity import check_namespace_role, check_role, registrant
from controlplane.operations.load_defaults import keep_options, with_kept_options
from controlplane.tables.access import Permission
from controlplane.tables.actions import do_register_table
from controlplane.tables.locations import checked_location
from controlplane.tables.models import DEFAULT_NAMESPACE, Table
from workers.errors import InvalidInput, LakehouseError, TableNotFound
from workers.installation import format_command
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.loading.options import DECODED_KEY
from workers.options.write_options import write_options
from workers.write.removal import remove_unwritten

if TYPE_CHECKING:
    import pyarrow as pa

_SOURCE_OPTIONS = ("connection", "source_table", "query")


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """The table of one load."""

    options: Mapping[str, Any]
    """The options of the command."""
    stem: str
    """The name of the table where the options give none."""
    command: BaseCommand

    @property
    def name(self) -> str:
        return self.options["name"] or self.stem

    @property
    def location(self) -> str:
        """The location of the table. Raises InvalidRequest for one that no table may have."""
        root = settings.SLUICE_TABLE_ROOTS[0]
        return checked_location(self.options["table"] or f"{root}/{self.name}")

    def find_row(self) -> Table | None:
        """Return the registered table. None also where the node has no database yet."""
        try:
            return Table.objects.filter(location=self.location).first()
        except OperationalError:
            return None

    def find_namespace(self) -> str:
        """Return the namespace of the table, or the default one for a new table. Raises
        PermissionDenied if the user of `--as` may not write there.
        """
        row = Table.objects.filter(location=self.location).first()
        if row is None:
            check_namespace_role(DEFAULT_NAMESPACE)
            return DEFAULT_NAMESPACE
        check_role(row, Permission.OPERATE)
        return row.namespace

    def find_table(self) -> LakehouseTable | None:
        """Return the table, where there is one and the user may write into it.

        Raises InvalidInput for another key, PermissionDenied.
        """
        try:
            table = open_table(self.location)
        except TableNotFound:
            check_namespace_role(DEFAULT_NAMESPACE)
            return None
        if get_acting_user() is not None:
            check_role(Table.objects.filter(location=self.location).first(), Permission.OPERATE)
        key = table.table.config.record_key
        if key != (self.options["record_key"],):
            raise InvalidInput(
                "the record key must be that of the table", table=self.location, key=key
            )
        return table

    def find_load_options(self, requested: Mapping[str, Any]) -> dict[str, Any]:
        """Return these options, and those that the table keeps from its last file; they are
        printed.
        """
        row = self.find_row()
        if row is None:
            return dict(requested)
        options = with_kept_options(row, {"kind": "csv", **requested})
        del options["kind"]
        if from_table := sorted(set(options) - set(requested)):
            listed = ", ".join(f"{name}={options[name]}" for name in from_table)
            self.command.stdout.write(f"options from the last load into this table: {listed}")
        return options

    def check_decoded_size(self, requested: Mapping[str, Any]) -> None:
        """Let only admins of the table load a file of any decoded size by `--as`. Raises
        PermissionDenied.
        """
        if requested.get(DECODED_KEY) and get_acting_user() is not None:
            check_role(self.find_row(), Permission.ADMINISTER)

    def keep_load_options(self, requested: Mapping[str, Any]) -> None:
        """Keep the options of this file for the table's next one."""
        if (row := self.find_row()) is not None:
            keep_options(row, {"kind": "csv", **requested})

    def check_columns(self, present: Sequence[str]) -> None:
        """Refuse columns that the file lacks. Raises CommandError, in the words of the command."""
        for option in ("record_key", "partition_by", "ordering"):
            name = self.options[option]
            if not name or name in present:
                continue
            more = ""
            if option == "record_key":
                more = ", or choose the columns of a generated key with --key-from"
            raise CommandError(
                f"the file has no column {name}: choose a column with "
                f"--{option.replace('_', '-')}{more}; its columns: {', '.join(present)}"
            )

    @contextmanager
    def open_audited(
        self, existing: LakehouseTable | None, schema: pa.Schema
    ) -> Iterator[LakehouseTable]:
        """Yield as `open_or_create`, with audit rows before the write and after it."""
        self._record("requested")
        try:
            with self.open_or_create(existing, schema) as table:
                yield table
        except BaseException:
            self._record("failed")
            raise
        self._record("succeeded")

    @contextmanager
    def open_or_create(
        self, existing: LakehouseTable | None, schema: pa.Schema
    ) -> Iterator[LakehouseTable]:
        """Yield the existing table, or a new one. A new one is removed if nothing is committed."""
        if existing is not None:
            yield existing
            return
        self.check_columns(schema.names)
        options, location = self.options, self.location
        is_streamed = bool(options["streams"])
        partial = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
        table = create_table(
            location,
            name=self.name,
            schema=schema,
            record_key=[options["record_key"]],
            partition_by=[options["partition_by"]] if options["partition_by"] else [],
            ordering=[options["ordering"]] if options["ordering"] else [],
            table_type=options["table_type"]
            or ("MERGE_ON_READ" if is_streamed else "COPY_ON_WRITE"),
            options=partial if is_streamed else {},
        )
        try:
            yield table
        except (CommandError, LakehouseError):
            if remove_unwritten(table.table, write_options({})):
                folder = Path(location)
                if folder.is_dir() and not any(folder.iterdir()):
                    folder.rmdir()
                self.command.stderr.write(
                    f"the new table at {location} was removed, because nothing was committed"
                )
            raise
        self.command.stdout.write(f"created table {self.name} at {location}")

    def _record(self, result: str) -> None:
        """Append an audit row, where there is a control plane."""
        options = self.options
        row = self.find_row()
        source = {name: options[name] for name in _SOURCE_OPTIONS if options.get(name)}
        details = {
            "location": self.location,
            "operation": options["operation"],
            "source": {**source, "files": [Path(file).name for file in options["files"]]},
            "streams": options["streams"],
        }
        try:
            with transaction.atomic():
                do_record(
                    who=get_shell_user(),
                    what="operation.write",
                    subject=row.slug if row is not None else self._slug,
                    result=result,
                    reason=options["reason"],
                    details=details,
                )
        except OperationalError:
            if result == "requested":
                self.command.stdout.write(
                    "not recorded in the audit log: the node has no database yet"
                )

    @property
    def _slug(self) -> str:
        """The slug of a table that is new here."""
        return self.name.lower().replace("_", "-").replace(" ", "-").replace(".", "-")

    def register(self) -> None:
        """Register the table, so that the pages show it, where there is a control plane."""
        write = self.command.stdout.write
        try:
            if not Table.objects.filter(location=self.location).exists():
                slug = self._slug
                do_register_table(location=self.location, slug=slug, name=self.name, **registrant())
                write(f"registered as {slug}")
        except OperationalError:
            write(
                f"not registered: the node has no database yet; `{format_command('up')}` creates it"
            )
        except (DatabaseError, ControlPlaneError) as error:
            write(f"not registered: {error}")
