"""Work on tables of which one file is damaged, drawn by the seed of the run: it is refused by name
or done, never ends in an error of Python, and costs no row once the file is put back.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from tests.support.damage import KINDS, fuzzed
from tests.support.sampling import WHOLE
from tests.support.scenario_table import schema_of
from workers.errors import LakehouseError
from workers.lakehouse import LakehouseTable, create_table, open_table

pytestmark = pytest.mark.slow

SCHEMA = schema_of(id=pa.string(), place=pa.string(), ts=pa.int64())


def batch(*rows: tuple[str, int]) -> pa.Table:
    return pa.Table.from_pylist([{"id": key, "place": "p", "ts": ts} for key, ts in rows], SCHEMA)


def newest(table: LakehouseTable) -> Any:
    return table.timeline()[-1]


Work = Callable[[LakehouseTable], object]
KEEPS_ROWS: dict[str, Work] = {
    "read": lambda table: table.read(),
    "scan": lambda table: table.scan(where="id = '1'").to_arrow(),
    "clean": lambda table: table.clean({"hoodie.clean.commits.retained": "1"}),
    "archive": lambda table: table.archive(
        {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    ),
    "compact": lambda table: table.compact(),
    "savepoint": lambda table: table.savepoint(newest(table).requested_at),
}
CHANGES_ROWS: dict[str, Work] = {
    "upsert": lambda table: table.write(batch(("1", 9), ("7", 1))),
    "delete": lambda table: table.delete(batch(("1", 9))),
    "delete where": lambda table: table.delete(predicate="id = '2'"),
    "rollback": lambda table: table.rollback(newest(table).requested_at),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A table of each kind with a history, logs, cleaned files and a base file."""
    places = {}
    for kind, given in KINDS.items():
        places[kind] = tmp_path_factory.mktemp("whole") / "table"
        table = create_table(
            places[kind], name="t", schema=SCHEMA, record_key=["id"], ordering=["ts"], **given
        )
        for ts in range(1, 6):
            table.write(batch((str(ts % 3), ts)))
        table.clean({"hoodie.clean.commits.retained": "2"})
        table.archive({"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"})
        if given["table_type"] == "MERGE_ON_READ":
            table.compact()
        table.write(batch(("2", 6)))
    return places


def rows_of(location: Path) -> list[dict[str, Any]]:
    rows = open_table(location).read()
    return cast("list[dict[str, Any]]", rows.sort_by("id").to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_work_on_a_damaged_table_is_refused_by_name_and_costs_no_row(
    kind: str, whole: dict[str, Path], tmp_path: Path
) -> None:
    chance = random.Random(f"{os.environ['SLUICE_TEST_SEED']} {kind}")
    rows = rows_of(whole[kind])
    every = {**KEEPS_ROWS, **CHANGES_ROWS}

    for number in range(20_000 if os.environ.get(WHOLE) else 60):
        place = tmp_path / str(number)
        shutil.copytree(whole[kind], place)
        files = sorted(path for path in place.rglob("*") if path.is_file() and path.stat().st_size)
        damaged, work = chance.choice(files), chance.choice(list(every))
        content = damaged.read_bytes()
        damaged.write_bytes(fuzzed(content, chance))
        case = f"{work} with {damaged.relative_to(place)} damaged, case {number}"
        try:
            with suppress(LakehouseError):  # Refused by name.
                every[work](open_table(place))
        except Exception as error:
            raise AssertionError(case) from error
        if work in KEEPS_ROWS:
            if damaged.exists():
                damaged.write_bytes(content)
            assert rows_of(place) == rows, case
        shutil.rmtree(place)
