"""Real input: hourly weather as three streams with a clock each, in random order, with replays and
corrections that come too early or too late. The wide table is what a join of the newest would be.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pytest

from tests.support.scenario_table import ScenarioTables
from workers.lakehouse import open_table

WEATHER = Path(__file__).resolve().parents[3] / "shared" / "data" / "weather.csv"
OBSERVATIONS = 26_115
OWN = {
    "temperature": ["temp", "dewp", "humid"],
    "wind": ["wind_dir", "wind_speed", "wind_gust"],
    "rest": ["precip", "pressure", "visib"],
}
NON_BLOCKING = {
    "hoodie.write.markers.type": "direct",
    "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
}
BATCHES = 6

pytestmark = pytest.mark.skipif(
    not WEATHER.is_file(), reason="../shared/data/weather.csv is not here"
)


def observations() -> pa.Table:
    options = csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
    weather = csv.read_csv(WEATHER, convert_options=options)
    times = weather.column("time_hour").cast(pa.string())
    separator: Any = "|"
    keys = pc.binary_join_element_wise(weather.column("origin"), times, separator)
    values = [weather.column(name).cast(pa.float64()) for one in OWN.values() for name in one]
    names = [name for one in OWN.values() for name in one]
    return pa.table([keys, weather.column("origin"), *values], names=["id", "origin", *names])


@pytest.mark.slow
def test_three_streams_with_their_own_clocks_join_whatever_the_order(
    tables: ScenarioTables,
) -> None:
    chance = random.Random(20261121)
    truth = observations()
    assert truth.num_rows == OBSERVATIONS
    clocks = {stream: f"{stream}_at" for stream in OWN}
    fields = [
        *(truth.schema.field(name) for name in ("id", "origin")),
        *(pa.field(clock, pa.int64()) for clock in clocks.values()),
        *(pa.field(name, pa.float64()) for one in OWN.values() for name in one),
    ]
    groups = [
        {"name": stream, "ordering": [clocks[stream]], "columns": OWN[stream]} for stream in OWN
    ]
    table = tables(
        schema=pa.schema(fields),
        record_key="id",
        partition_by=["origin"],
        table_type="MERGE_ON_READ",
        options={
            "hoodie.bucket.index.num.buckets": "2",
            "hoodie.multistream.groups": json.dumps(groups),
        },
    )
    deliveries = [
        (stream, batch)
        for stream, columns in OWN.items()
        for batch in deliveries_of(truth, columns, clocks[stream], chance)
    ]
    deliveries += chance.sample(deliveries, 4)
    chance.shuffle(deliveries)

    for number, (stream, batch) in enumerate(deliveries):
        open_table(table.location).write(batch, stream=stream, options=NON_BLOCKING)
        if number == len(deliveries) // 2:
            open_table(table.location).compact()

    for _ in range(2):
        joined = open_table(table.location).read().sort_by("id").select(truth.column_names)
        assert joined.equals(truth.sort_by("id").cast(joined.schema))
        open_table(table.location).compact()


def deliveries_of(
    truth: pa.Table, columns: list[str], clock: str, chance: random.Random
) -> list[pa.Table]:
    """The observations in batches, and wrong ones that an older clock gives away."""
    own = truth.select(["id", "origin", *columns])
    ages = pa.array([chance.randrange(1_000, 2_000) for _ in range(own.num_rows)])
    true = own.append_column(clock, ages)
    wrong = pa.table(
        [
            own.column("id"),
            own.column("origin"),
            *(pa.array([-999.0] * own.num_rows) for _ in columns),
            pc.subtract(ages, pa.scalar(1_000)),
        ],
        names=true.column_names,
    )
    order = list(range(own.num_rows))
    chance.shuffle(order)
    size = -(-own.num_rows // BATCHES)
    parts = [true.take(order[at : at + size]) for at in range(0, len(order), size)]
    stale = chance.sample(order, own.num_rows // 10)
    return [*parts, wrong.take(stale)]
