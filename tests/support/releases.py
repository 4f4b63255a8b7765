"""The schema of each release, as the names of its last migrations and one row of each table.

    python -m tests.support.releases 0.1.0

writes `tests/controlplane/releases/0.1.0.json` from the models and the migrations of this checkout.
Run it once, on the commit that is released. `tests/controlplane/test_releases.py` reads it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "controlplane" / "releases"
NUMBER = 1001
"""Each row's primary key, and its numbers. Migrations make rows with lower keys."""
MOMENT = "2026-11-28 10:00:00"
INSTANT = "20261128100000000"
Row = dict[str, Any]
"""By column: what SQLite and PostgreSQL both take as a parameter."""
_BY_TABLE: Mapping[str, Row] = {
    "accounts_grant": {"group_id": None, "namespace": ""},
    "audit_auditcheck": {"id": 1},
    "audit_auditevent": {"sequence": None, "hash": "", "previous_hash": ""},
    "mirror_instantrecord": {"state": "completed"},
    "operations_operation": {"again_of_id": None},
    "operations_schedule": {"after_schedule_id": None},
    "tables_rowgrant": {"group_id": None, "namespace": ""},
}
"""What constraints of the database want. No row is in the audit's chain: a trigger refuses it."""


@dataclass(frozen=True, slots=True)
class Release:
    migrations: dict[str, str]
    """The last migration of each app."""
    rows: dict[str, Row]
    """By table, in an order in which they can be inserted."""

    @classmethod
    def read(cls, path: Path) -> Release:
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def record() -> Release:
    """Return the release that this checkout would be."""
    from django.db.migrations.loader import MigrationLoader

    leaves = MigrationLoader(None).graph.leaf_nodes()
    rows = {model._meta.db_table: _row(model) for model in _order_models()}
    return Release(dict(sorted(leaves)), {table: row for table, row in rows.items() if row})


def _order_models() -> Iterator[Any]:
    """Yield each model after those that it refers to."""
    from django.apps import apps

    waiting = [model for model in apps.get_models(include_auto_created=True) if _is_stored(model)]
    done = set[Any]()
    while waiting:
        ready = [model for model in waiting if _needs(model) <= done]
        assert ready, f"models refer to each other in a circle: {waiting}"
        yield from ready
        done.update(ready)
        waiting = [model for model in waiting if model not in done]


def _is_stored(model: Any) -> bool:
    """Knox has a model of tokens that Sluice's own replaces, and the audit's head is made by its
    migration.
    """
    options = model._meta
    is_ours = options.app_label != "knox" and options.db_table != "audit_audithead"
    return bool(options.managed and is_ours)


def _needs(model: Any) -> set[Any]:
    related = {field.related_model for field in model._meta.concrete_fields if field.is_relation}
    return related - {model}


def _row(model: Any) -> Row:
    row = {field.column: _value(field) for field in model._meta.concrete_fields}
    return {**row, **_BY_TABLE.get(model._meta.db_table, {})}


def _value(field: Any) -> Any:
    from django.db import models

    while field.is_relation:
        field = field.target_field
    if field.choices:
        return field.choices[0][0]
    match field:
        case models.UUIDField():
            return f"{NUMBER:032x}"
        case models.BooleanField():
            return True
        case models.FloatField():
            return 1.5
        case models.DateTimeField():
            return MOMENT
        case models.JSONField():
            return '["one"]' if field.default is list else '{"one": 1}'
        case models.IntegerField():
            return NUMBER
        case _ if "instant" in type(field).__name__.lower():
            return INSTANT
        case _:
            return f"{field.name}-{NUMBER}"[: field.max_length]


def main(version: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.test")
    import django

    django.setup()
    path = FOLDER / f"{version}.json"
    path.write_text(json.dumps(asdict(record()), indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main(sys.argv[1])
