"""Join status from sampled file slices: presence, what is waited for, coverage by time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.clocks import ManualClock
from tests.support.joined import commit, make
from workers.errors import InvalidInput
from workers.options.time_units import AHEAD_MAX_MS, TimeUnit, time_units
from workers.read.event_time import NO_TIME, event_times
from workers.read.join_sample import sample_join
from workers.read.slice_sample import SampleBounds

DAY_MS = 24 * 3600 * 1000
NOON_MS = 1_777_636_800_000


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
@pytest.mark.parametrize("compacts", [False, True])
def test_presence_is_exact_when_everything_is_read(
    tmp_path: Path, table_type: str, compacts: bool
) -> None:
    table = make(tmp_path, table_type)
    commit(table, *({"id": n, "shop_ts": NOON_MS, "price": 1.0} for n in "abcd"))
    commit(table, *({"id": n, "ship_ts": NOON_MS, "road": "x"} for n in "abx"))
    commit(table, {"id": "b", "shop_ts": NOON_MS + 1, "_hoodie_is_deleted": True})
    commit(table, {"id": "x", "ship_ts": NOON_MS + 1, "_hoodie_is_deleted": True})
    if compacts and table_type == "MERGE_ON_READ":
        table.compact()

    sample = sample_join(table.table)

    assert sample.is_exact
    assert dict(sample.presence) == {("shop", "ship"): 1, ("shop",): 2, ("ship",): 1}
    assert (sample.keys, sample.hidden) == (4, 0)
    assert sample.tombstones == {"shop": 1, "ship": 1}


def test_the_oldest_incomplete_keys_say_whom_they_wait_for(tmp_path: Path) -> None:
    table = make(tmp_path)
    commit(table, {"id": "new", "shop_ts": NOON_MS + DAY_MS, "price": 1.0})
    commit(table, {"id": "old", "ship_ts": NOON_MS, "road": "x"})
    commit(table, {"id": "all", "ship_ts": 1, "road": "x", "shop_ts": 1, "price": 2.0})

    sample = sample_join(table.table)

    assert [(one.key, one.waits_for, one.event_ms) for one in sample.oldest] == [
        ("old", ("shop",), NOON_MS),
        ("new", ("ship",), NOON_MS + DAY_MS),
    ]


def test_coverage_goes_by_the_day_of_the_event(tmp_path: Path) -> None:
    table = make(tmp_path)
    days = [NOON_MS + DAY_MS * n for n in range(30)]
    commit(table, *({"id": str(ms), "shop_ts": ms, "price": 1.0} for ms in days))
    commit(table, *({"id": str(ms), "ship_ts": ms + 1, "road": "x"} for ms in days[:10]))

    coverage = sample_join(table.table).coverage

    assert coverage is not None
    assert (coverage.by, coverage.width_ms) == ("event", DAY_MS)
    columns = {one.column: one.rows_set for one in coverage.columns}
    assert coverage.rows == columns["price"] == (1,) * 30
    assert columns["road"] == (1,) * 10 + (0,) * 20
    assert {one.column: one.group for one in coverage.columns} == {"price": "shop", "road": "ship"}


def test_events_a_year_ahead_stretch_no_map_and_are_counted_and_told(tmp_path: Path) -> None:
    clock = ManualClock(NOON_MS + 30 * DAY_MS)
    joined = make(tmp_path)
    days = [NOON_MS + DAY_MS * n for n in range(30)]
    commit(joined, *({"id": str(ms), "shop_ts": ms, "price": 1.0} for ms in days))
    year = [clock.now_ms() + 365 * DAY_MS + n for n in range(2)]
    commit(joined, *({"id": str(ms), "shop_ts": ms, "price": 1.0} for ms in year))
    table = replace(joined.table, ports=replace(joined.table.ports, clock=clock))

    coverage = sample_join(table).coverage

    assert coverage is not None
    assert (coverage.by, coverage.width_ms) == ("event", DAY_MS)
    [price] = [one.rows_set for one in coverage.columns if one.column == "price"]
    assert coverage.rows == price == (1,) * 30 + (2,)
    assert coverage.rows_beyond == 2


def test_map_of_events_that_all_lie_ahead_is_one_bucket_at_the_clock(tmp_path: Path) -> None:
    joined = make(tmp_path)
    commit(joined, *({"id": str(n), "shop_ts": NOON_MS + n * DAY_MS, "price": 1.0} for n in (1, 9)))
    clock = ManualClock(NOON_MS)
    table = replace(joined.table, ports=replace(joined.table.ports, clock=clock))

    coverage = sample_join(table).coverage

    assert coverage is not None
    assert (coverage.rows, coverage.rows_beyond) == ((2,), 2)
    assert (
        coverage.first_ms <= clock.now_ms() + AHEAD_MAX_MS < coverage.first_ms + coverage.width_ms
    )


def test_an_event_within_what_clocks_differ_is_not_beyond(tmp_path: Path) -> None:
    joined = make(tmp_path)
    commit(joined, {"id": "a", "shop_ts": NOON_MS + AHEAD_MAX_MS, "price": 1.0})
    table = replace(joined.table, ports=replace(joined.table.ports, clock=ManualClock(NOON_MS)))

    coverage = sample_join(table).coverage

    assert coverage is not None
    assert (coverage.rows, coverage.rows_beyond) == ((1,), 0)


def test_ordering_that_is_no_time_gives_coverage_by_commit(tmp_path: Path) -> None:
    table = make(tmp_path, options={"sluice.event.time.unit": ""})
    commit(table, {"id": "a", "shop_ts": 1, "price": 1.0})

    sample = sample_join(table.table)

    assert sample.coverage is not None
    assert sample.coverage.by == "commit"
    assert sample.oldest[0].event_ms is None


def test_the_join_says_how_many_rows_it_hides(tmp_path: Path) -> None:
    table = make(tmp_path, options={"hoodie.multistream.join": "left:shop"})
    commit(table, *({"id": n, "ship_ts": 1, "road": "x"} for n in "abc"))
    commit(table, {"id": "a", "shop_ts": 1, "price": 1.0})

    assert sample_join(table.table).hidden == 2


def test_no_more_slices_and_bytes_are_read_than_the_bounds_say(tmp_path: Path) -> None:
    table = make(tmp_path, options={"hoodie.bucket.index.num.buckets": "8"})
    commit(table, *({"id": str(n), "shop_ts": 1, "price": 1.0} for n in range(200)))

    some = sample_join(table.table, SampleBounds(slices=3))
    nothing = sample_join(table.table, SampleBounds(bytes=10))

    assert (some.slices, some.slices_read, some.is_exact) == (8, 3, False)
    assert 0 < some.keys < 200
    assert (nothing.slices_read, nothing.keys, nothing.coverage) == (0, 0, None)


def test_a_table_without_groups_has_no_join(tmp_path: Path) -> None:
    from workers import create_table

    table = create_table(
        tmp_path / "t", name="t", schema=pa.schema([("id", pa.string())]), record_key=["id"]
    )

    with pytest.raises(InvalidInput):
        sample_join(table.table)


@pytest.mark.parametrize(
    ("values", "unit"),
    [
        (pa.array([NOON_MS // 1000, None]), "s"),
        (pa.array([NOON_MS, None]), "ms"),
        (pa.array([NOON_MS * 1000, None]), "us"),
        (pa.array([NOON_MS * 1_000_000, None]), "ns"),
        (pa.array([NOON_MS / 1000, None]), "s"),
    ],
)
def test_numbers_are_times_by_their_declared_unit(values: Any, unit: str) -> None:
    assert event_times(values, TimeUnit(unit)).tolist() == [NOON_MS, NO_TIME]
    assert event_times(values).tolist() == [NO_TIME, NO_TIME]
    assert event_times(pa.array([1e300, float("nan")]), TimeUnit(unit)).tolist() == [NO_TIME] * 2


@pytest.mark.parametrize("text", ["minutes", "shop_ts=h", "ms,shop_ts", "="])
def test_a_unit_that_is_none_is_refused_when_the_table_is_made(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput, match="a unit of time is s, ms, us or ns"):
        make(tmp_path, options={"sluice.event.time.unit": text})


def test_units_are_declared_for_all_columns_or_for_one() -> None:
    units = time_units("ms, paid_at=s")

    assert (units.of("paid_at"), units.of("shown_at")) == (TimeUnit.SECONDS, TimeUnit.MILLISECONDS)
    assert time_units("").of("shown_at") is None


def test_timestamps_and_their_texts_are_times() -> None:
    stamps = pa.array([NOON_MS, None], pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", "UTC"))
    texts = pa.array(["2026-05-01T12:00:00Z", None])

    assert event_times(stamps).tolist() == event_times(texts).tolist() == [NOON_MS, NO_TIME]
    assert event_times(pa.array(["abc"])).tolist() == [NO_TIME]
    assert np.all(event_times(pa.array([True])) == NO_TIME)
