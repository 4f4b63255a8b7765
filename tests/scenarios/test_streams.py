"""Streams write their own columns of one row, at the same time and without locks.

All streams of a key carry one ordering value here, as the product's minimum asks for: then Sluice
and the foreign readers agree in every order.
"""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from tests.support.scenario_table import Row, ScenarioTable, ScenarioTables, schema_of
from workers.errors import InvalidInput
from workers.files.names import parse_log_file
from workers.timeline import metadata

ADS = schema_of(
    request=pa.string(),
    at=pa.int64(),
    site=pa.string(),
    shown=pa.int32(),
    clicks=pa.int32(),
    amount=pa.float64(),
)
STREAMS = ("impression", "click", "conversion")
OWN: dict[str, Row] = {
    "impression": {"shown": 1},
    "click": {"clicks": 2},
    "conversion": {"amount": 3.5},
}


@pytest.fixture(params=["partitioned", "flat"])
def ads(request: pytest.FixtureRequest, tables: ScenarioTables) -> ScenarioTable:
    return tables(
        table_type="MERGE_ON_READ",
        schema=ADS,
        record_key="request",
        ordering=["at"],
        partition_by=["site"] if request.param == "partitioned" else [],
        options={"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
    )


def event(stream: str, request: str, *, at: int = 5) -> Row:
    return {"request": request, "at": at, "site": "a", **OWN[stream]}


def wide(request: str, *streams: str, at: int = 5) -> Row:
    row = dict.fromkeys(ADS.names) | {"request": request, "at": at, "site": "a"}
    for stream in streams:
        row |= OWN[stream]
    return row


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("order", list(itertools.permutations(STREAMS)), ids="-".join)
def test_three_streams_make_one_row_in_whatever_order_they_complete(
    ads: ScenarioTable, order: tuple[str, ...]
) -> None:
    writers = {name: ads.writer(name, mode="non-blocking", stream=name) for name in STREAMS}
    for name in STREAMS:
        writers[name].upsert(event(name, "all"), event(name, f"only-{name}"))

    for name in order:
        writers[name].wins()

    assert ads.rows() == sorted(
        [wide("all", *STREAMS), *(wide(f"only-{name}", name) for name in STREAMS)],
        key=lambda row: str(row["request"]),
    )


def test_key_is_right_after_each_of_the_three_streams(ads: ScenarioTable) -> None:
    seen = []
    for name in STREAMS:
        ads.writer(name, mode="non-blocking", stream=name).upsert_and_commit(event(name, "k"))
        ads.assert_referee_agrees()
        seen.append(ads.rows())

    assert seen == [[wide("k", *STREAMS[: n + 1])] for n in range(3)]


def test_no_stream_ever_waits_or_loses(ads: ScenarioTable) -> None:
    writers = [ads.writer(f"{n}", mode="non-blocking", stream=STREAMS[n % 3]) for n in range(9)]
    for number, writer in enumerate(writers):
        writer.upsert(event(STREAMS[number % 3], "k"))

    for writer in reversed(writers):
        writer.wins()

    assert ads.rows() == [wide("k", *STREAMS)]
    assert len(ads.lakehouse.file_groups()) == 1


def test_streams_write_log_files_of_their_own_columns_only(ads: ScenarioTable) -> None:
    writer = ads.writer("click", mode="non-blocking", stream="click")

    committed = writer.upsert_and_commit(event("click", "k"))

    [stat] = ads.metadata(committed.instant).stats
    assert parse_log_file(stat.file_name) is not None
    assert writer.transaction.context.columns == ("request", "at", "site", "clicks")
    extra = ads.metadata(committed.instant).extra_metadata
    assert extra[metadata.STREAM_KEY] == "click"
    assert "clicks" in extra[metadata.STREAM_COLUMNS_KEY].split(",")
    assert not {"shown", "amount"} & set(extra[metadata.STREAM_COLUMNS_KEY].split(","))
    assert extra[metadata.STREAM_MAX_ORDERING_KEY] == "5"


def test_later_event_of_one_stream_leaves_the_others_columns(ads: ScenarioTable) -> None:
    for name in STREAMS:
        ads.writer(name, mode="non-blocking", stream=name).upsert_and_commit(event(name, "k"))

    later = event("click", "k", at=6) | {"clicks": 9}
    ads.writer("click", mode="non-blocking", stream="click").upsert_and_commit(later)

    assert ads.rows() == [wide("k", *STREAMS, at=6) | {"clicks": 9}]


def test_late_event_does_not_undo_a_newer_one_of_its_stream(ads: ScenarioTable) -> None:
    click = event("click", "k", at=6) | {"clicks": 9}
    ads.writer("click", mode="non-blocking", stream="click").upsert_and_commit(click)

    late = event("click", "k", at=4)
    ads.writer("click", mode="non-blocking", stream="click").upsert_and_commit(late)

    assert ads.rows("clicks", "at") == [{"clicks": 9, "at": 6}]


def test_equal_events_of_one_stream_go_by_commit(ads: ScenarioTable) -> None:
    first, second = event("click", "k") | {"clicks": 1}, event("click", "k") | {"clicks": 2}
    ads.writer("click", mode="non-blocking", stream="click").upsert_and_commit(first)
    ads.writer("click", mode="non-blocking", stream="click").upsert_and_commit(second)

    assert ads.rows("clicks") == [{"clicks": 2}]


def test_null_of_a_stream_keeps_what_is_stored(ads: ScenarioTable) -> None:
    ads.writer("click", mode="non-blocking", stream="click").upsert_and_commit(event("click", "k"))

    erasing = event("click", "k", at=6) | {"clicks": None}
    ads.writer("all", mode="non-blocking").upsert_and_commit(erasing | {"shown": 7})

    assert ads.rows("clicks", "shown") == [{"clicks": 2, "shown": 7}]


def test_stream_that_adds_a_column_leaves_running_streams_alone(ads: ScenarioTable) -> None:
    click = ads.writer("click", mode="non-blocking", stream="click").upsert(event("click", "k"))
    wider = event("impression", "k") | {"viewport": "wide"}
    ads.writer("impression", mode="non-blocking", stream="impression").upsert_and_commit(wider)

    click.wins()

    assert ads.schema_columns() == [*ADS.names, "viewport"]
    assert ads.rows("clicks", "shown", "viewport") == [
        {"clicks": 2, "shown": 1, "viewport": "wide"}
    ]


def test_two_streams_that_add_different_columns_conflict(ads: ScenarioTable) -> None:
    """Hudi checks no schemas in non-blocking mode: a hole that is closed here (S0-16)."""
    click = ads.writer("click", mode="non-blocking", stream="click")
    click.upsert(event("click", "k") | {"device": "phone"})
    wider = event("impression", "k") | {"viewport": "wide"}
    ads.writer("impression", mode="non-blocking", stream="impression").upsert_and_commit(wider)

    assert click.loses().kind == "schema"

    assert ads.rows("clicks", "viewport") == [{"clicks": None, "viewport": "wide"}]
    assert ads.orphan_files() == []


def test_stream_over_base_files_of_an_optimistic_writer(ads: ScenarioTable) -> None:
    full = wide("k", "impression", "click")
    ads.writer("backfill", mode="optimistic").upsert_and_commit(full)

    ads.writer("conversion", mode="non-blocking", stream="conversion").upsert_and_commit(
        event("conversion", "k"), event("conversion", "new")
    )

    assert ads.rows() == [wide("k", *STREAMS), wide("new", "conversion")]


def test_stream_on_a_table_that_would_erase_other_columns_is_refused(
    tables: ScenarioTables,
) -> None:
    table = tables(table_type="MERGE_ON_READ", schema=ADS, record_key="request", ordering=["at"])

    with pytest.raises(InvalidInput, match="erase"):
        table.writer("click", mode="non-blocking", stream="click").upsert(event("click", "k"))

    assert len(table.instants()) == 1


def test_lock_free_mode_on_copy_on_write_is_refused(tables: ScenarioTables) -> None:
    table = tables(schema=ADS, record_key="request", ordering=["at"])

    with pytest.raises(InvalidInput, match="MERGE_ON_READ"):
        table.writer("click", mode="non-blocking").upsert(event("click", "k"))


def test_lock_free_bulk_insert_is_refused(ads: ScenarioTable) -> None:
    writer = ads.writer("click", mode="non-blocking", stream="click")

    with pytest.raises(InvalidInput, match="only append logs"):
        writer.upsert(event("click", "k"), operation="bulk_insert")
