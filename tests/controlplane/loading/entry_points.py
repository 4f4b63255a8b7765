"""The ways of loading a file into a table, each from its request to its commit.

After a call the rows are in the table at `Node.location`, or `Refused` was raised with the message
that a user reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from controlplane.operations.models import Operation
from controlplane.tables.actions import do_register_table
from tests.support.spark_server import shared_server
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.jobs import ServiceJob, WriteJob
from workers.lakehouse import create_table, open_table
from workers.loading.options import load_options
from workers.loading.reader import open_rows, read_rows, spool_rows
from workers.ports import RandomIds, system_ports
from workers.reporting import SilentReporter
from workers.spark.driver import Driver
from workers.spark.load import Load
from workers.tasks.table_service import carry_out_service

SLUG: Final = "loaded"
TABLES: Final = "/api/v1/tables/"
NEW_TABLES: Final = "/api/v1/new-tables/"


class Refused(Exception):
    """The message of a load that was refused."""


@dataclass(frozen=True)
class FileLoad:
    """One file and the table that it goes into."""

    file: Path
    options: Mapping[str, str] = field(default_factory=dict)
    table: pa.Schema | None = None
    """None for a table that the load creates."""
    key: str = "id"

    @property
    def source(self) -> dict[str, str]:
        """The source of a request."""
        kind = load_options(self.options).get_format(self.file.name)
        return {"kind": kind, "path": str(self.file), **self.options}


@dataclass(frozen=True)
class Node:
    """A control plane with one table root and one source root."""

    root: Path
    drop: Path
    run: Path
    client: Client
    """Signed in as an admin."""

    @property
    def location(self) -> Path:
        return self.root / SLUG

    @property
    def environment(self) -> dict[str, str]:
        return {"SLUICE_TABLE_ROOTS": str(self.root), "SLUICE_SOURCE_ROOTS": str(self.drop)}

    def create(self, load: FileLoad) -> None:
        """Create and register the table of the load, if it has one."""
        if load.table is None:
            return
        create_table(self.location, name=SLUG, schema=load.table, record_key=[load.key])
        self._register()

    def create_empty(self, load: FileLoad) -> None:
        """Create and register a table that has no columns yet."""
        create_table(self.location, name=SLUG, schema=None, record_key=[load.key])
        self._register()

    def _register(self) -> None:
        admin = User.objects.get(pk=self.client.session["_auth_user_id"])
        do_register_table(location=str(self.location), slug=SLUG, name=SLUG, by=admin)

    def create_by_file(self, load: FileLoad) -> dict[str, Any]:
        """Create the table over REST with the columns that the file suggests, and return the
        suggestion. Raises Refused.
        """
        requested = {key: text for key, text in load.source.items() if key not in ("kind", "path")}
        body = {"path": str(load.file), "load": {**requested, "format": load.source["kind"]}}
        suggestion = self.post(f"{NEW_TABLES}suggestion/", body)
        names = [column["name"] for column in suggestion["columns"]]
        columns = [
            {"name": column["name"], "type": column["type"]} for column in suggestion["columns"]
        ]
        self.post(
            NEW_TABLES,
            {
                "location": str(self.location),
                "slug": SLUG,
                "columns": columns,
                "record_key": [load.key if load.key in names else names[0]],
            },
        )
        return suggestion

    def post(self, address: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer. Raises Refused for an error of the client."""
        response = self.client.post(address, dict(body), "application/json")
        assert response.status_code < 500, response.content
        answer: dict[str, Any] = response.json()
        if response.status_code >= 400:
            raise Refused(_message(answer))
        return answer

    def drive(self, job: WriteJob) -> None:
        """Run the driver of the job in this process, on the shared Spark server. Raises Refused."""
        Path(job.run_dir).mkdir(parents=True, exist_ok=True)
        with refusals():
            ending = Driver(
                job=job,
                reporter=SilentReporter(),
                ports=system_ports(),
                remote=shared_server().remote,
                environment={**self.environment, "SLUICE_SOURCE_ROOTS": self._roots(job)},
            ).run()
        assert ending.state.value == "succeeded", ending

    def _roots(self, job: WriteJob) -> str:
        """The command allows the folder of its own spool, as `manage.py write` does."""
        is_spool = str(job.source["path"]).startswith(str(self.run))
        return str(self.run) if is_spool else str(self.drop)


EntryPoint = Callable[[FileLoad, Node], None]


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except (CommandError, InvalidInput) as error:
        raise Refused(str(error)) from error


def _message(answer: Mapping[str, Any]) -> str:
    listed = " ".join(f"{name}={value}" for name, value in answer["values"].items())
    return f"{answer['detail']}: {listed}"


def load_by_engine(load: FileLoad, node: Node) -> None:
    """`open_rows`, then `table.write`."""
    with refusals():
        rows = open_rows([load.file], load_options(load.options), load.table, keys=[load.key])
        read = read_rows(rows)
        if load.table is None:
            create_table(node.location, name=SLUG, schema=rows.schema, record_key=[load.key])
        outcome = open_table(str(node.location)).write(read)
    assert isinstance(outcome, Committed), outcome


def _command(load: FileLoad, *more: str) -> None:
    words = ["--name", SLUG, "--record-key", load.key, *more]
    words += [f"--{name.replace('_', '-')}={text}" for name, text in load.options.items()]
    with refusals():
        call_command("write", str(load.file), *words)


def load_by_command(load: FileLoad, node: Node) -> None:
    """`manage.py write --no-spark`."""
    _command(load, "--no-spark")


def load_by_spark_command(load: FileLoad, node: Node) -> None:
    """`manage.py write` with Spark: the same steps, but the driver runs in this process."""
    spool = node.run / "rows.parquet"
    with refusals():
        rows = open_rows([load.file], load_options(load.options), load.table, keys=[load.key])
        spool_rows(rows, spool)
        if load.table is None:
            create_table(node.location, name=SLUG, schema=rows.schema, record_key=[load.key])
    table = open_table(str(node.location)).table
    (job,) = Load(table=table, file=spool, run_root=node.run).jobs([], RandomIds())
    node.drive(job)


def load_by_driver_process(load: FileLoad, node: Node) -> None:
    """`manage.py write` with Spark, in processes of its own."""
    _command(load)


def load_by_rest(load: FileLoad, node: Node) -> None:
    """A write over REST; the job of the operation runs."""
    body = {"source": load.source, "operation": "upsert"}
    operation = node.post(f"{TABLES}{SLUG}/operations/", body)
    job = Operation.objects.get(pk=operation["row"]["id"]).parameters["job"]
    node.drive(WriteJob.from_message({**job, "run_dir": str(node.run / "job")}))


def overwrite_by_rest(load: FileLoad, node: Node) -> None:
    """An overwrite of the whole table over REST, with its plan; the job of the service runs."""
    _run_planned("insert_overwrite_table", load, node)


def delete_by_rest(load: FileLoad, node: Node) -> None:
    """A delete by the file over REST, from the registered table."""
    _run_planned("delete", load, node)


def _run_planned(operation: str, load: FileLoad, node: Node) -> None:
    source = load.source
    parameters = {key: text for key, text in source.items() if key != "kind"}
    if "format" not in parameters:
        parameters["format"] = source["kind"]
    plan = node.post(f"{TABLES}{SLUG}/services/{operation}/plan/", {"parameters": parameters})
    answer = node.post(
        f"{TABLES}{SLUG}/operations/",
        {
            "source": {**source, "format": source["kind"]},
            "operation": operation,
            "plan_hash": plan["plan_hash"],
            "reason": "test",
            "table_name": SLUG,
        },
    )
    job = ServiceJob.from_message(Operation.objects.get(pk=answer["row"]["id"]).parameters["job"])
    table = open_table(str(node.location)).table
    with refusals():
        carry_out_service(job, table, SilentReporter())


def preview_by_rest(load: FileLoad, node: Node) -> dict[str, Any]:
    """Return the preview of the write over REST, into the registered table."""
    return node.post(f"{TABLES}{SLUG}/sources/preview/", {"source": load.source})


def list_files(node: Node) -> list[str]:
    """Return all files of the table and of its timeline; a refused load adds none."""
    return sorted(str(path.relative_to(node.root)) for path in node.root.rglob("*"))


BY_FILE: Final = ("rest", "overwrite")
"""They need a table, so a new one is created from the file first."""
IN_PROCESS: Final[Mapping[str, EntryPoint]] = {
    "engine": load_by_engine,
    "command": load_by_command,
    "overwrite": overwrite_by_rest,
}
SPARK: Final[Mapping[str, EntryPoint]] = {
    "spark command": load_by_spark_command,
    "rest": load_by_rest,
}
