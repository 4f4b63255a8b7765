"""What SQL statements cannot do is refused by name, before anything is written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.scenarios.test_column_groups import CLICK, made, shown, wide, write
from tests.scenarios.test_sql import NON_BLOCKING, ads, refused, sql
from tests.support.scenario_table import READINGS, ScenarioTable, ScenarioTables, schema_of
from workers import run_sql
from workers.errors import InvalidInput

__all__ = ["ads"]


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("INSERT INTO ads (id, shown_at, site) VALUES ('k', 1, 's')", "lacks some of its columns"),
        ("INSERT INTO ads (id, site, price) VALUES ('k', 's', 1)", "without what orders them"),
        ("INSERT INTO ads (shown_at, site, price) VALUES (1, 's', 1)", "lacks key"),
        ("INSERT INTO ads (id, nope) VALUES ('k', 1)", "no such column: column=nope"),
        ("INSERT INTO ads (id, x, x) VALUES ('k', 1, 1)", "named twice"),
        ("INSERT INTO ads (id, clicked_at, x) VALUES ('k', 1)", "as many columns as are named"),
        (
            "INSERT INTO ads (id, clicked_at, x) VALUES ('k', 'soon', 1)",
            "say CAST: column=clicked_at",
        ),
        ("INSERT INTO ads (id, clicked_at, x) VALUES ('k', 1, 1.5)", "say CAST: column=x"),
        ("INSERT INTO ads (id, note) SELECT 'k', no_such_function(1)", "cannot be computed"),
        ("INSERT INTO ads (id, note) SELECT * FROM elsewhere", "no table of this name.*elsewhere"),
        (
            "INSERT INTO ads (id, note) SELECT 'k', * FROM read_text('/etc/hostname')",
            "no functions",
        ),
        ("ALTER TABLE ads ADD COLUMN later INT FIRST", "comes last.*column=later given=FIRST"),
        ("ALTER TABLE ads ADD COLUMNS (a INT, later INT AFTER id)", "comes last.*given=AFTER id"),
        ("SELECT * FROM ads FOR UPDATE", "a query locks no rows"),
        ("INSERT OVERWRITE ads SELECT * FROM ads", "this part of INSERT is not supported"),
        ("INSERT INTO ads PARTITION (site = 's') SELECT 1", "this part of a target"),
        ("INSERT INTO ads BY NAME SELECT * FROM ads", "list the columns"),
        ("UPDATE ads SET id = 'l'", "key and partition columns are not set"),
        ("UPDATE ads SET nope = 1", "no such column"),
        ("UPDATE ads SET x = nope, clicked_at = 1", "cannot be computed"),
        ("UPDATE ads SET x = s.x FROM ads s WHERE ads.id = s.id", "this part of UPDATE"),
        ("DELETE FROM ads USING ads b WHERE ads.id = b.id", "this part of DELETE"),
        ("MERGE INTO ads USING ads s ON ads.x = s.x WHEN MATCHED THEN UPDATE SET *", "record key"),
        ("MERGE INTO ads USING ads s ON ads.id > s.id WHEN MATCHED THEN UPDATE SET *", "ON says"),
        (
            """MERGE INTO ads USING ads s ON ads.id = s.id
               WHEN MATCHED AND s.x = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET note = 'x'""",
            "a MERGE deletes or writes",
        ),
        (
            """MERGE INTO ads USING ads s ON ads.id = s.id
               WHEN NOT MATCHED THEN INSERT (id, note) VALUES (s.note, s.note)""",
            "what ON compares it with",
        ),
        (
            """MERGE INTO ads USING ads s ON ads.id = s.id
               WHEN MATCHED THEN UPDATE SET x = 1, clicked_at = 2
               WHEN NOT MATCHED THEN INSERT (id, note) VALUES (s.id, s.note)""",
            "name the same columns of a group.*note",
        ),
        ("DROP TABLE ads", "not supported: statement=DROP"),
        ("UPDATE ads SET x = 1; UPDATE ads SET x = 2", "one statement at a time"),
        ("UPDATE ads SET x = (", "cannot be read"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    tables: ScenarioTables, statement: str, why: str
) -> None:
    ads = made(tables)
    write(ads, shown("k", 5))

    assert re.search(why, refused(ads, statement))


@pytest.mark.parametrize(
    ("group", "statement", "options", "why"),
    [
        ({"aggregates": {"x": "max"}}, "UPDATE ads SET x = 1", {}, "made of all versions"),
        ({"null_mode": "keep"}, "UPDATE ads SET x = NULL", {}, "cannot be set to null"),
        (
            {"on_late": "overwrite", "columns": ["x", "y"]},
            "UPDATE ads SET x = 1",
            NON_BLOCKING,
            "set all of its columns.*y",
        ),
    ],
)
def test_group_that_does_not_take_the_change_says_why(
    tables: ScenarioTables,
    group: dict[str, Any],
    statement: str,
    options: dict[str, str],
    why: str,
) -> None:
    ads = tables(
        table_type="MERGE_ON_READ",
        schema=schema_of(id=pa.string(), clicked_at=pa.int64(), x=pa.int32(), y=pa.int32()),
        options={"hoodie.multistream.groups": json.dumps([CLICK | group])},
    )

    assert re.search(why, refused(ads, statement, options))


def test_whole_rows_are_not_inserted_in_part_nor_updated_unseen(tables: ScenarioTables) -> None:
    readings = tables(
        schema=READINGS, ordering=["ts"], partition_by=["place"], table_type="MERGE_ON_READ"
    )

    part = refused(readings, "INSERT INTO ads (id, place, ts) VALUES ('a', 'oslo', 1)")
    unseen = refused(readings, "UPDATE ads SET value = 1", NON_BLOCKING)

    assert "names all columns" in part
    assert "OPTIMISTIC_CONCURRENCY_CONTROL" in unseen


def test_value_that_its_column_cannot_hold_rolls_the_write_back(ads: ScenarioTable) -> None:
    write(ads, shown("k", 5))

    with pytest.raises(InvalidInput, match="does not fit its column: column=x"):
        sql(ads, "UPDATE ads SET x = shown_at * 1000000000000, clicked_at = 1")

    assert ads.rows() == [wide("k", shown_at=5, site="s", price=1.0)]
    assert ads.leftovers() == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("CREATE TABLE t (id INT PRIMARY KEY)", "a new table needs a place"),
        ("CREATE TABLE t (id INT) LOCATION '{}'", "needs a record key"),
        ("CREATE TABLE t AS SELECT 1 AS id", "with its columns and their types"),
        ("CREATE VIEW t AS SELECT 1 AS id", "only tables are created"),
        ("CREATE TABLE t (id INT PRIMARY KEY, n INT DEFAULT 1) LOCATION '{}'", "nothing more"),
        ("CREATE TABLE t (id INT PRIMARY KEY, n INTERVAL) LOCATION '{}'", "of this type"),
        ("CREATE TABLE t (id INT PRIMARY KEY) USING parquet LOCATION '{}'", "is not supported"),
        (
            "CREATE TABLE t (id INT PRIMARY KEY) LOCATION '{}' TBLPROPERTIES ('hoodie.bukets'='1')",
            "unknown table option",
        ),
        (
            "CREATE TABLE t (id INT PRIMARY KEY) LOCATION '{}' TBLPROPERTIES ('primaryKey'='n')",
            "says it twice",
        ),
    ],
)
def test_table_that_cannot_be_made_says_why(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        run_sql(text.format(tmp_path / "t"))

    assert not (tmp_path / "t").exists()
