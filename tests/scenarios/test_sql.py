"""SQL statements write the columns that they name, and nothing else, as one commit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from tests.scenarios.test_column_groups import CLICK, SCHEMA, SHOWN, made, shown, wide, write
from tests.support.scenario_table import READINGS, Row, ScenarioTable, ScenarioTables, schema_of
from workers import run_sql
from workers.concurrency.outcome import CommitOutcome, Committed, Conflicted
from workers.errors import InvalidInput
from workers.files.log_block import ParquetData
from workers.files.log_file import read_log_file
from workers.lakehouse import LakehouseTable
from workers.sql.conversion import Conversion

DIRECT = {"hoodie.write.markers.type": "direct"}
MODE = "hoodie.write.concurrency.mode"
OPTIMISTIC = {MODE: "OPTIMISTIC_CONCURRENCY_CONTROL"}
NON_BLOCKING = {MODE: "NON_BLOCKING_CONCURRENCY_CONTROL"}


def sql(
    table: ScenarioTable,
    statement: str,
    options: Mapping[str, str] | None = None,
    tables: Mapping[str, Path] | None = None,
) -> CommitOutcome:
    known: dict[str, LakehouseTable | str | Path] = {"ads": table.lakehouse, **(tables or {})}
    outcome: CommitOutcome = run_sql(statement, tables=known, options=DIRECT | dict(options or {}))
    if isinstance(outcome, Committed):
        table.reported.append(outcome.instant)
    return outcome


def refused(table: ScenarioTable, statement: str, options: Mapping[str, str] | None = None) -> str:
    """It must be refused, and leave no instant behind."""
    before = table.timeline()
    with pytest.raises(InvalidInput) as caught:
        sql(table, statement, options)
    assert table.timeline() == before
    return str(caught.value)


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def ads(request: pytest.FixtureRequest, tables: ScenarioTables) -> ScenarioTable:
    return made(tables, request.param)


@pytest.fixture
def readings(tables: ScenarioTables) -> ScenarioTable:
    """Whole rows, one ordering field, partitions."""
    return tables(schema=READINGS, ordering=["ts"], partition_by=["place"])


def test_join_table_is_made_by_one_statement(tmp_path: Path) -> None:
    groups = json.dumps([SHOWN, CLICK])

    made = run_sql(f"""
        CREATE TABLE ads (
          id STRING NOT NULL, day DATE, shown_at BIGINT, site STRING, price DECIMAL(9, 2),
          clicked_at BIGINT, x INT, tags ARRAY<STRING>, PRIMARY KEY (id)
        ) USING hudi PARTITIONED BY (day) LOCATION '{tmp_path}/ads'
        TBLPROPERTIES ('type' = 'mor', 'hoodie.bucket.index.num.buckets' = '2',
          'hoodie.multistream.groups' = '{groups}', 'hoodie.multistream.join' = 'left:shown')
    """)

    assert isinstance(made, LakehouseTable)
    config = made.table.config
    assert (config.record_key, config.partition_by) == (("id",), ("day",))
    assert (config.is_merge_on_read, config.buckets) == (True, 2)
    assert config.groups is not None
    assert [one.name for one in config.groups.declared] == ["shown", "click"]
    schema = made.schema()
    assert schema is not None
    assert schema.field("price").type == pa.decimal128(9, 2)
    assert schema.field("tags").type == pa.list_(pa.field("element", pa.string()))


def test_table_that_is_there_is_kept_or_refused(tmp_path: Path) -> None:
    text = "TABLE {} people (id BIGINT PRIMARY KEY, city STRING)"
    place = {"people": tmp_path / "people"}
    run_sql(f"CREATE {text.format('')}", tables=place)

    again = run_sql(f"CREATE {text.format('IF NOT EXISTS')}", tables=place)

    assert isinstance(again, LakehouseTable)
    with pytest.raises(InvalidInput, match="a table lives here already"):
        run_sql(f"CREATE {text.format('')}", tables=place)


def test_insert_writes_the_named_columns_and_leaves_the_others(ads: ScenarioTable) -> None:
    sql(
        ads,
        "INSERT INTO ads (id, shown_at, site, price) VALUES ('k', 5, 's', 1.5), ('l', 6, 't', 2)",
    )

    sql(
        ads,
        "INSERT INTO ads (id, clicked_at, x) SELECT id, shown_at + 1, 7 FROM ads WHERE id = 'k'",
    )

    assert ads.rows() == [
        wide("k", shown_at=5, site="s", price=1.5, clicked_at=6, x=7),
        wide("l", shown_at=6, site="t", price=2.0),
    ]


def test_log_of_an_update_holds_the_group_and_not_the_row(tables: ScenarioTables) -> None:
    ads = made(tables)
    write(ads, shown("k", 5))
    sql(ads, "INSERT INTO ads (id, clicked_at, x) VALUES ('k', 6, 1)")

    outcome = sql(ads, "UPDATE ads SET x = x + 1 WHERE id = 'k'")

    assert isinstance(outcome, Committed)
    [stat] = ads.metadata(outcome.instant).stats
    [block] = read_log_file(ads.storage, stat.path)
    assert isinstance(block, ParquetData)
    assert [one for one in block.table().column_names if one in SCHEMA.names] == [
        "id",
        "clicked_at",
        "x",
    ]
    assert ads.rows("clicked_at", "x", "price") == [{"clicked_at": 6, "x": 2, "price": 1.0}]


def test_update_keeps_the_age_of_the_group_and_wins_over_its_equal(ads: ScenarioTable) -> None:
    write(ads, shown("k", 5, "old", 1.0))

    sql(ads, "UPDATE ads AS a SET site = upper(a.site) || '!' WHERE a.id = 'k'")

    assert ads.rows("shown_at", "site", "price") == [{"shown_at": 5, "site": "OLD!", "price": 1.0}]
    write(ads, shown("k", 4, "late", 9.0))
    assert ads.rows("site") == [{"site": "OLD!"}]


def test_update_that_sets_an_older_age_comes_late(ads: ScenarioTable) -> None:
    write(ads, shown("k", 5, "s", 1.0))

    sql(ads, "UPDATE ads SET site = 'x', shown_at = 4")

    assert ads.rows("shown_at", "site") == [{"shown_at": 5, "site": "s"}]


def test_update_of_a_group_that_the_row_lacks_asks_for_its_age(ads: ScenarioTable) -> None:
    write(ads, shown("k", 5))

    with pytest.raises(InvalidInput, match="has no version of the group"):
        sql(ads, "UPDATE ads SET x = 1 WHERE id = 'k'")
    sql(ads, "UPDATE ads SET x = 1, clicked_at = shown_at WHERE id = 'k'")

    assert ads.rows() == [wide("k", shown_at=5, site="s", price=1.0, clicked_at=5, x=1)]


def test_merge_updates_what_is_there_and_inserts_what_is_not(
    ads: ScenarioTable, tables: ScenarioTables
) -> None:
    write(ads, shown("a", 5), shown("b", 5))
    came = tables(schema=schema_of(id=pa.string(), at=pa.int64(), n=pa.int32()))
    came.writer("w").upsert_and_commit({"id": "b", "at": 9, "n": 1}, {"id": "c", "at": 3, "n": 2})

    sql(
        ads,
        """MERGE INTO ads USING lake.came s ON ads.id = s.id
           WHEN MATCHED AND s.at > ads.shown_at THEN UPDATE SET price = price + s.n, shown_at = s.at
           WHEN NOT MATCHED THEN INSERT (id, clicked_at, x) VALUES (s.id, s.at, s.n)""",
        tables={"lake.came": came.location},
    )

    assert ads.rows() == [
        wide("a", shown_at=5, site="s", price=1.0),
        wide("b", shown_at=9, site="s", price=2.0),
        wide("c", clicked_at=3, x=2),
    ]


def test_merge_by_star_takes_the_columns_of_the_source(ads: ScenarioTable) -> None:
    write(ads, shown("a", 5))

    sql(
        ads,
        """MERGE INTO ads AS t
           USING (SELECT 'a' AS id, 6 AS clicked_at, 1 AS x UNION ALL SELECT 'b', 7, 2) s
           ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
    )

    assert ads.rows("id", "shown_at", "clicked_at", "x") == [
        {"id": "a", "shown_at": 5, "clicked_at": 6, "x": 1},
        {"id": "b", "shown_at": None, "clicked_at": 7, "x": 2},
    ]


def test_source_with_two_rows_for_one_is_refused(ads: ScenarioTable) -> None:
    write(ads, shown("a", 5))

    with pytest.raises(InvalidInput, match=r"several rows for one row.*'a'"):
        sql(
            ads,
            """MERGE INTO ads USING (SELECT 'a' AS id, explode(array(1, 2)) AS n) s
               ON ads.id = s.id WHEN MATCHED THEN UPDATE SET price = s.n""",
        )

    assert ads.rows("price") == [{"price": 1.0}]


def test_delete_takes_the_rows_that_match(ads: ScenarioTable) -> None:
    write(ads, shown("a", 5, "s"), shown("b", 6, "t"), shown("c", 7, "s"))

    sql(ads, "DELETE FROM ads WHERE site = 's' AND shown_at < 7")

    assert ads.rows("id") == [{"id": "b"}, {"id": "c"}]


def test_statements_see_rows_that_the_join_hides(tables: ScenarioTables) -> None:
    ads = made(tables, "MERGE_ON_READ", SHOWN, CLICK, hoodie__multistream__join="inner")
    write(ads, shown("a", 5), shown("b", 5))
    assert ads.rows() == []

    sql(ads, "DELETE FROM ads WHERE id = 'b'")
    sql(ads, "UPDATE ads SET clicked_at = 6, x = 1")

    assert ads.rows() == [wide("a", shown_at=5, site="s", price=1.0, clicked_at=6, x=1)]


def test_whole_rows_are_written_back_whole(readings: ScenarioTable) -> None:
    write_readings(readings, "a", "b")

    sql(readings, "UPDATE ads SET value = value * 10 WHERE id = 'a'")
    sql(
        readings,
        """MERGE INTO ads USING (SELECT 'b' AS id, 5 AS ts UNION ALL SELECT 'c', 6) s
           ON ads.id = s.id WHEN MATCHED THEN UPDATE SET ts = s.ts
           WHEN NOT MATCHED THEN INSERT (id, place, ts) VALUES (s.id, 'oslo', s.ts)""",
    )

    assert readings.rows("id", "ts", "value", "note") == [
        {"id": "a", "ts": 1, "value": 20, "note": "n"},
        {"id": "b", "ts": 5, "value": 2, "note": "n"},
        {"id": "c", "ts": 6, "value": None, "note": None},
    ]


def write_readings(table: ScenarioTable, *keys: str) -> None:
    rows: list[Row] = [
        {"id": key, "place": "oslo", "ts": 1, "value": 2, "note": "n"} for key in keys
    ]
    table.writer("w").upsert_and_commit(*rows)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("mode", ["SINGLE_WRITER", "OPTIMISTIC_CONCURRENCY_CONTROL"])
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ads SET price = price + 1",
        """MERGE INTO ads USING (SELECT 'k' AS id) s ON ads.id = s.id
           WHEN MATCHED THEN UPDATE SET price = price + 1""",
        "DELETE FROM ads WHERE price < 5",
    ],
    ids=["update", "merge", "delete"],
)
def test_row_that_changed_after_it_was_read_is_a_conflict(
    ads: ScenarioTable, statement: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ads, shown("k", 5, "s", 1.0))
    overtake(ads, monkeypatch, shown("k", 5, "theirs", 8.0))

    outcome = sql(ads, statement, {MODE: mode})

    assert isinstance(outcome, Conflicted)
    assert ads.rows("site", "price") == [{"site": "theirs", "price": 8.0}]


def test_retry_computes_from_what_the_other_wrote(
    ads: ScenarioTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ads, shown("k", 5, "s", 1.0))
    overtake(ads, monkeypatch, shown("k", 5, "theirs", 8.0))
    retries = {"hoodie.write.num.retries.on.conflict.failures": "1"}

    outcome = sql(ads, "UPDATE ads SET price = price + 1", OPTIMISTIC | retries)

    assert isinstance(outcome, Committed)
    assert outcome.attempts == 2
    assert ads.rows("site", "price") == [{"site": "theirs", "price": 9.0}]


def test_beside_non_blocking_writers_the_ages_of_the_group_decide(
    tables: ScenarioTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    ads = made(tables)
    write(ads, shown("k", 5, "s", 1.0), shown("l", 5, "s", 1.0))
    overtake(ads, monkeypatch, shown("k", 6, "newer", 8.0), shown("l", 5, "equal", 8.0))

    outcome = sql(ads, "UPDATE ads SET site = site || '!'", NON_BLOCKING)

    assert isinstance(outcome, Committed)
    assert ads.rows("id", "site", "price") == [
        {"id": "k", "site": "newer", "price": 8.0},
        {"id": "l", "site": "s!", "price": 1.0},
    ]


def overtake(ads: ScenarioTable, monkeypatch: pytest.MonkeyPatch, *theirs: Row) -> None:
    """Another writer commits when the statement has read its rows, and not written yet."""
    looks: list[int] = []
    convert = Conversion.of

    def of(conversion: Conversion, rows: pa.Table) -> pa.Table:
        looks.append(rows.num_rows)
        if len(looks) == 1:
            write(ads, *theirs)
        return convert(conversion, rows)

    monkeypatch.setattr(Conversion, "of", of)
