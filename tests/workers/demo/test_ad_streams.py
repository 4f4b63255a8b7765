"""The demo's ad streams with many requests: three writers at once, each with its own clock,
events late, repeated, corrected and taken back, compaction beside them. The table is what DuckDB
makes of the same events.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from workers.demo.ad_requests import (
    CLOCKS,
    COLUMN_GROUPS,
    IS_DELETED,
    KEY,
    OWN_FIELDS,
    PARTITION,
    STREAMS,
    TABLE_SCHEMA,
    AdRequests,
    Stream,
)
from workers.errors import ServiceBusy, ServiceRefused
from workers.lakehouse import create_table, open_table

ROUNDS = 20
NON_BLOCKING = {
    "hoodie.write.markers.type": "direct",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("requests", [300_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_requests_of_three_streams_are_joined_as_duckdb_joins_them(
    tmp_path: Path, requests: int
) -> None:
    run = AdRequests(
        seed=7, run=1_763_000_000, rounds=ROUNDS, requests_per_round=requests // ROUNDS
    )
    location = str(tmp_path / "ad_requests")
    create_table(
        location,
        name="ad_requests",
        schema=TABLE_SCHEMA,
        record_key=[KEY],
        partition_by=[PARTITION],
        table_type="MERGE_ON_READ",
        options={
            "hoodie.bucket.index.num.buckets": "4",
            "hoodie.multistream.groups": COLUMN_GROUPS,
        },
    )
    over = threading.Event()

    def write(stream: Stream) -> None:
        for number in range(ROUNDS):
            table = open_table(location)
            table.write(run.events(stream, number), stream=stream, options=NON_BLOCKING)

    def compact() -> int:
        done = 0
        while not over.wait(1.0):
            try:
                done += open_table(location).compact().instant is not None
            except (ServiceBusy, ServiceRefused):
                continue
        return done

    with ThreadPoolExecutor(len(STREAMS) + 1) as pool:
        compacting = pool.submit(compact)
        writing = [pool.submit(write, stream) for stream in STREAMS]
        try:
            for future in writing:
                future.result()
        finally:
            over.set()
        assert compacting.result() > 0

    expected = joined_by_duckdb(run)
    assert expected.num_rows == requests
    assert open_table(location).read().sort_by(KEY).equals(expected)
    open_table(location).compact()
    assert open_table(location).read().sort_by(KEY).equals(expected)


def joined_by_duckdb(run: AdRequests) -> pa.Table:
    """Of each stream the newest version by its clock. What is taken back leaves its clock, by which
    older versions that come later are known.
    """
    with duckdb.connect() as engine:
        parts = []
        for stream in STREAMS:
            events = pa.concat_tables([run.events(stream, number) for number in range(ROUNDS)])
            engine.register(f"{stream}_events", events)
            parts.append(newest(stream))
        joined = " FULL JOIN ".join(
            [parts[0], *(f"{one} USING ({KEY}, {PARTITION})" for one in parts[1:])]
        )
        names = ", ".join(TABLE_SCHEMA.names)
        joined_rows: pa.Table = engine.sql(
            f"SELECT {names} FROM {joined} ORDER BY {KEY}"
        ).to_arrow_table()
        return joined_rows.cast(TABLE_SCHEMA)


def newest(stream: Stream) -> str:
    clock = CLOCKS[stream]
    gone = IS_DELETED if stream == "conversion" else "FALSE"
    own = [one.name for one in OWN_FIELDS[stream] if one.name != clock]
    cells = ", ".join(f"CASE WHEN NOT {gone} THEN {name} END AS {name}" for name in own)
    ranked = (
        f"SELECT *, row_number() OVER (PARTITION BY {KEY} ORDER BY {clock} DESC) AS place "
        f"FROM {stream}_events"
    )
    return (
        f"(SELECT {KEY}, {PARTITION}, {clock}, {cells} FROM ({ranked}) WHERE place = 1) AS {stream}"
    )
