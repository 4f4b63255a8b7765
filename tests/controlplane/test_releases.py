"""A database of each release is brought up to date with all its rows, and the release's own
programs can still insert while the next version starts.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, migrations, models, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from controlplane.audit.guards import remove
from tests.support.databases import own_database  # noqa: F401 - a fixture
from tests.support.releases import FOLDER, Release, Row

RELEASES = sorted(FOLDER.glob("*.json"))
NO_ROWS = {"django_migrations", "audit_audithead"}
"""Tables that migrations fill themselves."""
CHANGED: dict[tuple[str, str], Any] = {}
"""(table, column) whose value a later migration changes on purpose, and what it becomes."""
GONE = set[tuple[str, str]]()
"""(table, column) that a later migration removes. Only the release after the one that stopped
writing it may do that.
"""

each_release = pytest.mark.parametrize("path", RELEASES, ids=lambda path: path.stem)


def migrate(targets: list[tuple[str, str]]) -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(targets)


def migrate_to_head() -> None:
    migrate(list(MigrationExecutor(connection).loader.graph.leaf_nodes()))


def insert(table: str, row: Row) -> None:
    """As the release's own program does: all columns that it knows, and no others."""
    names = ", ".join(f'"{name}"' for name in row)
    marks = ", ".join(["%s"] * len(row))
    with connection.cursor() as cursor:
        cursor.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', list(row.values()))


def insert_all(release: Release) -> None:
    with transaction.atomic():
        for table, row in release.rows.items():
            insert(table, row)


def list_columns(table: str) -> set[str]:
    with connection.cursor() as cursor:
        described = connection.introspection.get_table_description(cursor, table)
        return {column.name for column in described}


def read_row(table: str, row: Row) -> Row:
    """Return what the database has of this row, in the form of the recorded values."""
    key = next(iter(row))
    names = [name for name in row if (table, name) not in GONE]
    listed = ", ".join(f'"{name}"' for name in names)
    with connection.cursor() as cursor:
        cursor.execute(f'SELECT {listed} FROM "{table}" WHERE "{key}" = %s', [row[key]])
        [values] = cursor.fetchall()
    return {name: plain(value) for name, value in zip(names, values, strict=True)}


def plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        case UUID():
            return value.hex
        case dict() | list():
            return json.dumps(value)
        case _:
            return value


def expect_row(table: str, row: Row) -> Row:
    columns = {name: value for name, value in row.items() if (table, name) not in GONE}
    return columns | {name: CHANGED[table, name] for name in columns if (table, name) in CHANGED}


def delete_all(release: Release) -> None:
    remove(connection)
    with transaction.atomic(), connection.cursor() as cursor:
        for table in reversed(release.rows):
            cursor.execute(f'DELETE FROM "{table}"')


@each_release
def test_every_row_of_a_release_is_there_after_the_migrations_since(
    own_database: str,  # noqa: F811
    path: Path,
) -> None:
    release = Release.read(path)
    migrate(list(release.migrations.items()))
    tables = set(connection.introspection.table_names()) - NO_ROWS
    assert tables == set(release.rows), "the record of the release has each table"
    for table, row in release.rows.items():
        assert list_columns(table) == set(row), table
    insert_all(release)

    migrate_to_head()

    for table, row in release.rows.items():
        assert read_row(table, row) == expect_row(table, row), table
    delete_all(release)
    insert_all(release)
    for table, row in release.rows.items():
        assert read_row(table, row) == expect_row(table, row), f"inserted by the release: {table}"


def test_insert_of_a_release_fails_on_a_new_column_without_default(
    own_database: str,  # noqa: F811
) -> None:
    """The fault for which the inserts above are there."""
    release = Release.read(RELEASES[-1])
    app = ("sessions", release.migrations["sessions"])
    migrate([app])
    state = MigrationLoader(connection).project_state(app)
    add = partial(migrations.AddField, "session")
    before, after = release.rows["django_session"], state.clone()
    added = add("kind", models.CharField(max_length=8, default="web"))
    added.state_forwards("sessions", after)
    with connection.schema_editor() as editor:
        added.database_forwards("sessions", editor, state, after)

    with pytest.raises(IntegrityError):
        insert("django_session", before)


def lacks_default(operation: Operation) -> bool:
    """Whether programs of the release before cannot insert after this operation."""
    if not isinstance(operation, migrations.AddField):
        return False
    field = operation.field
    return not (field.null or field.many_to_many or field.has_db_default())


def test_new_columns_that_are_not_null_have_a_default_in_the_database() -> None:
    """Django takes `default` out of the database again, so that a process of the former version
    could not insert: give `db_default`.
    """
    loader = MigrationLoader(None)
    first = Release.read(RELEASES[0])
    released = {
        key for leaf in first.migrations.items() for key in loader.graph.forwards_plan(leaf)
    }
    wrong = [
        f"{app}.{name}: {operation.model_name}.{operation.name}"
        for (app, name), migration in sorted(loader.disk_migrations.items())
        if (app, name) not in released and migration.__module__.startswith("controlplane.")
        for operation in migration.operations
        if lacks_default(operation) and isinstance(operation, migrations.AddField)
    ]

    assert wrong == []


@pytest.mark.parametrize(
    ("field", "is_wrong"),
    [
        (models.CharField(max_length=8, default=""), True),
        (models.CharField(max_length=8, db_default=""), False),
        (models.CharField(max_length=8, null=True), False),
        (models.ManyToManyField("tables.Table"), False),
    ],
)
def test_the_rule_finds_a_column_without_default(field: Any, is_wrong: bool) -> None:
    assert lacks_default(migrations.AddField("table", "kind", field)) is is_wrong


def test_a_release_has_a_record_for_each_app() -> None:
    apps = {app for app, _ in MigrationLoader(None).graph.leaf_nodes()}

    assert set(Release.read(RELEASES[-1]).migrations) <= apps
