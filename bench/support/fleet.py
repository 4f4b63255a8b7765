"""Many small tables at once: copies of one of ours, and of tables that Apache Hudi made."""

from __future__ import annotations

import shutil
from itertools import cycle
from pathlib import Path

import pyarrow as pa

from bench.support.golden import ARCHIVES, golden_archive, unpacked
from workers import create_table
from workers.lakehouse import LakehouseTable

FLEET = 308
FOREIGN_EVERY = 4
DIRECT = {"hoodie.write.markers.type": "direct"}
_COLUMNS: dict[str, pa.DataType] = {"id": pa.string(), "ts": pa.int64(), "city": pa.string()}
_SCHEMA = pa.schema(_COLUMNS)
_COMMITS = 3
_FOREIGN = ("v6_empty", "v6_trips", "cow-v8_complexkeygen", "mor-avro-v9_txns_nonpart")
"""The small ones: versions 6, 8 and 9."""


def make_fleet(root: Path, count: int = FLEET) -> list[Path]:
    """`count` tables directly below `root`, every fourth of them foreign where golden tables are
    beside this checkout. The first is ours.
    """
    templates = root.parent / f"{root.name}-templates"
    ours = _ours(templates / "ours")
    foreign = [unpacked(golden_archive(name), templates / name) for name in _FOREIGN if ARCHIVES]
    others = cycle(foreign or [ours])
    root.mkdir(parents=True)
    made = []
    for number in range(count):
        is_foreign = number % FOREIGN_EVERY == FOREIGN_EVERY - 1
        location = root / f"t{number:03}"
        shutil.copytree(next(others) if is_foreign else ours, location)
        made.append(location)
    shutil.rmtree(templates)
    return made


def add_row(table: LakehouseTable, number: int) -> str:
    """One more commit of one of our tables: its instant."""
    row = {"id": [str(number % 10)], "ts": [number], "city": ["Oslo"]}
    return table.write(pa.table(row, schema=_SCHEMA), options=DIRECT).instant


def _ours(location: Path) -> Path:
    table = create_table(
        location,
        name="small",
        schema=_SCHEMA,
        record_key=["id"],
        ordering=["ts"],
        table_type="MERGE_ON_READ",
    )
    for number in range(_COMMITS):
        add_row(table, number)
    return location
