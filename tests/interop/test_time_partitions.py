"""Partition paths under timestamp-based and custom key generators: what Apache Hudi's own makes of
the same values, and tables that both engines write in turn.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.hudi_peer import HudiPeer, write_options
from workers.concurrency.outcome import Committed
from workers.files.names import partition_path
from workers.files.time_texts import Unformatted, time_texts
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.options.time_partitions import time_rule

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

PREFIX = "hoodie.keygen.timebased."
OLDER = "hoodie.deltastreamer.keygen.timebased."
VALUES = 400
SEED = 20_261_122
OUTPUTS = [
    "yyyy/MM/dd",
    "yyyy-MM-dd",
    "yyyyMMdd",
    "yyyy-MM-dd HH",
    "yyyy-MM-dd hh",
    "yyyy-MM-dd'T'HH:mm:ss.SSS",
    "'year='yyyy/'week='ww",
    "xxxx-ww-e",
    "yy-M-d k K",
    "yyyy-DDD-S",
]
ZONES = ["UTC", "GMT+8:00", "GMT-03:30", "America/New_York", "Asia/Shanghai", "Europe/Berlin"]
NUMBERS = {
    "UNIX_TIMESTAMP": 1,
    "EPOCHMILLISECONDS": 1_000,
    "EPOCHMICROSECONDS": 1_000_000,
    "SCALAR nanoseconds": 1_000_000_000,
    "SCALAR SECONDS": 1,
    "SCALAR MINUTES": 1 / 60,
    "SCALAR hours": 1 / 3_600,
    "SCALAR DAYS": 1 / 86_400,
}
TEXTS = [
    # (patterns that are read, how such a text is made, more options)
    ("yyyy-MM-dd", "%Y-%m-%d", {"timezone": "UTC"}),
    ("yyyyMMdd", "%Y%m%d", {"timezone": "Asia/Shanghai"}),
    ("yyyy-MM-dd HH:mm:ss", "%Y-%m-%d %H:%M:%S", {"timezone": "America/New_York"}),
    (
        "yyyy-MM-dd'T'HH:mm:ssZ,yyyy-MM-dd'T'HH:mm:ss.SSSZ",
        "%Y-%m-%dT%H:%M:%S.%f",
        {"output.timezone": "UTC"},
    ),
    ("yyyy-MM-dd'T'HH:mm:ssZ", "%Y-%m-%dT%H:%M:%S+0530", {}),
    (
        "yyyy/M/d|yyyyMMdd",
        "%Y%m%d",
        {
            "input.dateformat.list.delimiter.regex": "\\|",
            "input.timezone": "Asia/Tokyo",
            "output.timezone": "UTC",
        },
    ),
]


def generator_options(**parts: str) -> dict[str, str]:
    return {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "ts",
        **{PREFIX + part.replace("__", "."): value for part, value in parts.items()},
    }


def ours(values: list[Any], options: Mapping[str, str], kind: pa.DataType) -> list[str | None]:
    """One by one where some cannot be told, so that the others still are."""
    rule = time_rule(options)
    flags = {
        "hive_style": options.get("hoodie.datasource.write.hive_style_partitioning") == "true",
        "url_encode": options.get("hoodie.datasource.write.partitionpath.urlencode") == "true",
    }
    try:
        texts = time_texts(rule, "ts", pa.array(values, kind)).to_pylist()
    except Unformatted as error:
        bad = error.is_bad.to_pylist()
        kept = [value for value, is_bad in zip(values, bad, strict=True) if not is_bad]
        good_texts = iter(time_texts(rule, "ts", pa.array(kept, kind)).to_pylist())
        texts = [None if is_bad else next(good_texts) for is_bad in bad]
    return [None if one is None else partition_path(["ts"], [one], **flags) for one in texts]


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_become_the_paths_that_hudi_makes(name: str, peer: HudiPeer) -> None:
    chance = random.Random(f"{SEED} {name}")
    kind, _, unit = name.partition(" ")
    for number, output in enumerate(OUTPUTS):
        zone = ZONES[number % len(ZONES)]
        given = {"timestamp__type": kind, "output__dateformat": output, "timezone": zone}
        if unit:
            given["timestamp__scalar__time__unit"] = unit
        options = generator_options(**given)
        options |= {
            "hoodie.datasource.write.hive_style_partitioning": str(number % 3 == 0).lower(),
            "hoodie.datasource.write.partitionpath.urlencode": str(number % 4 == 1).lower(),
        }
        values: list[Any] = [None, 0, 1, -1, -1_500]
        # Zones had other rules before 1970, which the two libraries keep differently.
        values += [int(chance.uniform(0, 4e9) * NUMBERS[name]) for _ in range(VALUES)]

        assert ours(values, options, pa.int64()) == peer.partitions(values, options), (name, output)


@pytest.mark.parametrize(("patterns", "made", "more"), TEXTS, ids=[one[0] for one in TEXTS])
def test_texts_become_the_paths_that_hudi_makes(
    patterns: str, made: str, more: Mapping[str, str], peer: HudiPeer
) -> None:
    chance = random.Random(f"{SEED} {patterns}")
    for number, output in enumerate(OUTPUTS):
        given = {
            "timestamp__type": "MIXED" if number % 2 else "DATE_STRING",
            "input__dateformat": patterns,
            "output__dateformat": output,
        }
        options = generator_options(**given, **{k.replace(".", "__"): v for k, v in more.items()})
        values: list[Any] = [None, "2021-02-29", "x", "2021-13-01"]
        for _ in range(VALUES):
            moment = dt.datetime.fromtimestamp(chance.uniform(0, 4e9), dt.UTC)
            text = moment.strftime(made.replace("%f", f"{moment.microsecond // 1000:03d}"))
            if "ss.SSSZ" in patterns:
                text += chance.choice(["+0000", "-0930", "+05:45"])
            values.append(text)
        if "HH:mm" in patterns and "Z" not in patterns:
            values += ["2024-03-10 02:30:00", "2024-11-03 01:30:00"]  # Clocks jump, and go back.

        assert ours(values, options, pa.string()) == peer.partitions(values, options), output


def test_parts_of_a_number_are_cut_as_hudi_cuts_them(peer: HudiPeer) -> None:
    options = generator_options(
        timestamp__type="UNIX_TIMESTAMP", output__dateformat="yyyy-MM-dd HH:mm:ss", timezone="UTC"
    )
    values = [0.5, -0.5, -1.5, 1_700_000_000.999, None]

    assert ours(values, options, pa.float64()) == peer.partitions(values, options)


def test_older_names_of_the_options_say_the_same(peer: HudiPeer) -> None:
    options = generator_options(
        timestamp__type="EPOCHMILLISECONDS", output__dateformat="yyyy/MM/dd", timezone="GMT+8:00"
    )
    older = {key.replace(PREFIX, OLDER): value for key, value in options.items()}
    values = [0, 1_700_000_000_000, None]

    assert ours(values, older, pa.int64()) == peer.partitions(values, older)
    assert ours(values, older, pa.int64()) == ours(values, options, pa.int64())


_TYPES: dict[str, pa.DataType] = {
    "id": pa.string(),
    "n": pa.int64(),
    "ts": pa.int64(),
    "place": pa.string(),
    "note": pa.string(),
}
SCHEMA = pa.schema(_TYPES)
BUCKETS = 3
DIRECT = {"hoodie.write.markers.type": "direct"}
DAYS = {
    PREFIX + "timestamp.type": "EPOCHMILLISECONDS",
    PREFIX + "output.dateformat": "yyyy/MM/dd",
    PREFIX + "timezone": "Europe/Berlin",
}
HOURS = {
    PREFIX + "timestamp.type": "SCALAR",
    PREFIX + "timestamp.scalar.time.unit": "MILLISECONDS",
    PREFIX + "output.dateformat": "yyyy-MM-dd HH",
    PREFIX + "output.timezone": "GMT-03:30",
}
HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
# (key generator, key, partition fields, options)
TABLES = {
    "timestamp": ("Timestamp", ["id"], ["ts"], DAYS),
    "timestamp-hive": ("Timestamp", ["id"], ["ts"], HOURS | HIVE),
    "timestamp-encoded": ("Timestamp", ["id"], ["ts"], DAYS | ENCODED | HIVE),
    "custom": ("Custom", ["id"], ["place:SIMPLE", "ts:TIMESTAMP"], DAYS),
    "custom-hive": ("Custom", ["id", "n"], ["ts:TIMESTAMP", "place:SIMPLE"], HOURS | HIVE),
    "custom-simple": ("Custom", ["id", "n"], ["place:SIMPLE"], {}),
    "custom-none": ("Custom", ["id"], [], {}),
}


def rows(numbers: range, note: str) -> list[dict[str, Any]]:
    """The same keys always lie in the same partitions."""
    return [
        {
            "id": f"k{number}",
            "n": number * 7,
            "ts": None if number == 5 else 1_700_000_000_000 + number * 9_999_999,
            "place": ("Oslo", "Rome", None)[number % 3],
            "note": note,
        }
        for number in numbers
    ]


def batch(rows_by_id: dict[str, dict[str, Any]], numbers: range, note: str) -> pa.Table:
    made = rows(numbers, note)
    rows_by_id.update({one["id"]: one for one in made})
    return pa.Table.from_pylist(made, schema=SCHEMA)


def hudi_options(name: str, table_type: str) -> dict[str, str]:
    generator, key, fields, options = TABLES[name]
    given = write_options(
        name="timed",
        record_key=key,
        partition_by=fields,
        ordering=["n"],
        buckets=BUCKETS,
        table_type=table_type,
    )
    return {
        **given,
        **options,
        "hoodie.datasource.write.keygenerator.class": (
            f"org.apache.hudi.keygen.{generator}{'Based' * (generator == 'Timestamp')}KeyGenerator"
        ),
    }


def expect(table: LakehouseTable, rows_by_id: dict[str, dict[str, Any]], peer: HudiPeer) -> None:
    snapshot = table.read().to_pylist()
    assert sorted(snapshot, key=str) == sorted(rows_by_id.values(), key=str)
    if table.table.config.key_generator == "TIMESTAMP":  # Hudi on Spark reads no custom ones.
        judged = peer.read(Path(table.location)).select(SCHEMA.names).to_pylist()
        texts = sorted(str([None if v is None else str(v) for v in row.values()]) for row in judged)
        assert texts == sorted(
            str([None if v is None else str(v) for v in row.values()]) for row in snapshot
        )


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("name", TABLES)
def test_hudi_upserts_into_our_table_without_a_duplicate(
    name: str, table_type: str, location: Path, peer: HudiPeer
) -> None:
    generator, key, fields, options = TABLES[name]
    table = create_table(
        location,
        name="timed",
        schema=SCHEMA,
        record_key=key,
        partition_by=fields,
        ordering=["n"],
        table_type=table_type,
        options={
            "hoodie.bucket.index.num.buckets": str(BUCKETS),
            "hoodie.datasource.write.keygenerator.type": generator.upper(),
            **options,
        },
    )
    rows_by_id: dict[str, dict[str, Any]] = {}

    assert isinstance(table.write(batch(rows_by_id, range(30), "ours"), options=DIRECT), Committed)
    peer.write(location, batch(rows_by_id, range(20, 40), "theirs"), hudi_options(name, table_type))
    expect(table, rows_by_id, peer)
    assert isinstance(
        table.write(batch(rows_by_id, range(10, 35), "more"), options=DIRECT), Committed
    )
    expect(table, rows_by_id, peer)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("name", ["timestamp", "timestamp-hive", "custom", "custom-hive"])
def test_table_of_hudi_is_adopted_and_written(name: str, location: Path, peer: HudiPeer) -> None:
    given = hudi_options(name, "MERGE_ON_READ")
    rows_by_id: dict[str, dict[str, Any]] = {}
    peer.write(location, batch(rows_by_id, range(60), "theirs"), given)
    table = open_table(location)

    # Hudi keeps the options of its timestamp-based generator with the table, and with its writers
    # alone those of the custom one.
    outcome = table.adopt(
        {k: v for k, v in TABLES[name][3].items() if k.startswith(PREFIX)}
        if "custom" in name
        else {}
    )

    assert outcome.figures["buckets"] == BUCKETS
    for turn in range(2):
        ours = batch(rows_by_id, range(20 * turn, 70), f"ours {turn}")
        assert isinstance(table.write(ours, options=DIRECT), Committed)
        peer.write(location, batch(rows_by_id, range(10, 80), f"theirs {turn}"), given)
        expect(table, rows_by_id, peer)
