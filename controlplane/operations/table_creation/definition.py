"""What a new table is to be, and everything that is wrong with that, field by field. Nothing here
writes, and no storage is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from controlplane.errors import ControlPlaneError, InvalidRequest
from controlplane.tables.actions import check_no_overlap, check_slug_is_free
from controlplane.tables.locations import checked_location
from controlplane.tables.models import DEFAULT_NAMESPACE
from controlplane.tables.names import check_name, check_namespace, check_slug
from workers.errors import InvalidInput

TABLE_TYPES: Final = ("COPY_ON_WRITE", "MERGE_ON_READ")
COLUMNS_MAX: Final = 2000
_GROUPS_KEY: Final = "hoodie.multistream.groups"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a new table, its type as CREATE TABLE names it."""

    name: str
    type: str
    required: bool = False


def parse_column(text: str) -> Column:
    """Return the column of `name type` or `name type not null`. Raises InvalidRequest."""
    name, _, rest = text.strip().rstrip(",").strip().partition(" ")
    kind = rest.strip()
    if required := kind.lower().endswith(" not null"):
        kind = kind[: -len(" not null")].strip()
    if not name or not kind:
        raise InvalidRequest("a column must be `name type` or `name type not null`", given=text)
    return Column(name, kind, required)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """Everything that is asked for, as it was said."""

    location: str
    slug: str
    name: str = ""
    namespace: str = DEFAULT_NAMESPACE
    columns: Sequence[Column] = ()
    record_key: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    ordering: str = ""
    """Of several rows of one key the greatest value of this column wins; empty goes by the commit.
    """
    table_type: str = "COPY_ON_WRITE"
    groups: str = ""
    """Column groups as JSON, as `hoodie.multistream.groups` takes them; empty for none."""

    def body(self) -> dict[str, Any]:
        """All of it as JSON, for what makes it this request and no other."""
        return {
            "location": self.location,
            "slug": self.slug,
            "name": self.name,
            "namespace": self.namespace,
            "columns": [[column.name, column.type, column.required] for column in self.columns],
            "record_key": list(self.record_key),
            "partition_by": list(self.partition_by),
            "ordering": self.ordering,
            "table_type": self.table_type,
            "groups": self.groups,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTable:
    """What `create_table` takes."""

    location: str
    """Resolved."""
    arguments: Mapping[str, Any]


@dataclass(slots=True)
class _Problems:
    by_field: dict[str, list[str]] = field(default_factory=dict)

    def note(self, name: str, check: Callable[[], Any]) -> Any:
        """What the check gives; None where it refuses, and its words are noted under the field."""
        try:
            return check()
        except (ControlPlaneError, InvalidInput) as error:
            self.say(name, _words(error))
            return None

    def say(self, name: str, words: str) -> None:
        self.by_field.setdefault(name, []).append(words)


def checked_table(new: NewTable) -> CheckedTable:
    """The table as the engine takes it. Raises InvalidRequest with `fields`: of each field with
    something wrong the sentences.
    """
    problems = _Problems()
    problems.note("slug", lambda: check_slug(new.slug))
    problems.note("slug", lambda: check_slug_is_free(new.slug))
    problems.note("name", lambda: check_name(new.name or new.slug))
    problems.note("namespace", lambda: check_namespace(new.namespace))
    location = problems.note("location", lambda: checked_location(new.location))
    if location is not None:
        problems.note("location", lambda: check_no_overlap(location))
    if new.table_type not in TABLE_TYPES:
        problems.say("table_type", f"a table is one of {', '.join(TABLE_TYPES)}")
    schema = _schema(new.columns, problems)
    _check_places(new, schema, problems)
    options = _options(new, problems)
    if problems.by_field:
        raise InvalidRequest("the table cannot be created like this", fields=problems.by_field)
    return CheckedTable(
        location=location,
        arguments={
            "name": engine_name(new.slug),
            "schema": schema,
            "record_key": list(new.record_key),
            "partition_by": list(new.partition_by),
            "ordering": [new.ordering] if new.ordering else [],
            "table_type": new.table_type,
            "options": options,
        },
    )


def engine_name(slug: str) -> str:
    """The table's own name, in `hoodie.properties`: a slug in the letters that engines take."""
    plain = slug.replace("-", "_")
    return plain if plain[:1].isalpha() else f"t_{plain}"


def _schema(columns: Sequence[Column], problems: _Problems) -> Any:
    """An Arrow schema of the columns without a problem."""
    import pyarrow as pa  # Late: a web process seldom makes a table.

    from workers.files.names import check_column_name
    from workers.sql.type_names import type_named
    from workers.table_arguments import table_schema

    if not 0 < len(columns) <= COLUMNS_MAX:
        problems.say("columns", f"a table has one column at least and {COLUMNS_MAX} at most")
        return None
    fields = []
    for column in columns:
        if problems.note("columns", partial(check_column_name, column.name)) is None:
            continue
        kind = problems.note("columns", partial(type_named, column.type, column.name))
        if kind is not None:
            fields.append(pa.field(column.name, kind, nullable=not column.required))
    schema = pa.schema(fields)
    if not problems.by_field.get("columns"):
        problems.note("columns", lambda: table_schema(schema, "new"))
    return schema


def _check_places(new: NewTable, schema: Any, problems: _Problems) -> None:
    """That keys, partitions and the ordering are columns, each named once."""
    from workers.files.record_key import check_key_type

    if not new.record_key:
        problems.say("record_key", "a table needs a record key: name the columns that make a row")
    present = {column.name for column in new.columns}
    named = {
        "record_key": new.record_key,
        "partition_by": new.partition_by,
        "ordering": [new.ordering] if new.ordering else [],
    }
    for field_name, columns in named.items():
        if missing := [column for column in columns if column not in present]:
            problems.say(field_name, f"no column is called {', '.join(missing)[:200]}")
        if len(set(columns)) < len(columns):
            problems.say(field_name, "a column is named twice")
    for column in new.record_key:
        if schema is not None and column in schema.names:
            kind = schema.field(column).type
            problems.note("record_key", partial(check_key_type, column, kind))


def _options(new: NewTable, problems: _Problems) -> dict[str, str]:
    from workers.options.column_groups import parse_groups

    if not new.groups.strip():
        return {}
    problems.note("groups", lambda: parse_groups(new.groups))
    return {_GROUPS_KEY: new.groups}


def _words(error: ControlPlaneError | InvalidInput) -> str:
    values = ", ".join(f"{name} {_plain(text)}" for name, text in error.values.items())
    return f"{error.message} ({values})" if values else error.message


def _plain(text: object) -> str:
    listed = isinstance(text, list | tuple | set | frozenset)
    return (json.dumps(list(text), default=str) if listed else str(text))[:120]  # type: ignore[call-overload]  # narrowed above
