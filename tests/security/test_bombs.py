"""Threat T20: files that are small and say that they are large, or nest without end, neither kill
the process that reads them nor keep it busy.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.bomb_reader import TOO_MANY_CALLS
from tests.support.bombs import AVRO, JSON, LOGS, PARQUET, sparse
from tests.support.damage import KINDS, fuzzed
from tests.support.sampling import WHOLE
from tests.support.scenario_table import schema_of
from workers.json_text import read_json
from workers.lakehouse import create_table, open_table

SCHEMA = schema_of(id=pa.string(), place=pa.string(), ts=pa.int64())
LIES = (b"\xff" * 8, b"\x7f" + b"\xff" * 7, b"\0" * 8)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 10_000 + "]" * 10_000])
def test_json_that_nests_without_end_is_broken_json(text: str) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(text)


class Reader:
    """A process that reads one table after the other, and may not die of any."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.bomb_reader"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self, location: Path) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{json.dumps(str(location))}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"it died of {location.name}: {self.process.wait()}"
        answer: dict[str, Any] = json.loads(line)
        return answer


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    reader = Reader()
    yield reader
    reader.process.kill()
    reader.process.wait()


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Merge-on-read, with a base file, a log file and three commits."""
    place = tmp_path / "good"
    table = create_table(
        place, name="good", schema=SCHEMA, record_key=["id"], ordering=["ts"],
        table_type="MERGE_ON_READ", options={"hoodie.bucket.index.num.buckets": "1"},
    )  # fmt: skip
    for ts in (1, 2):
        table.write(pa.Table.from_pylist([{"id": "1", "place": "p", "ts": ts}], SCHEMA))
    table.compact()
    table.write(pa.Table.from_pylist([{"id": "2", "place": "p", "ts": 3}], SCHEMA))
    return place


def planted(good: Path, name: str, plant: Callable[[Path], None]) -> Path:
    place = good.with_name("".join(letter if letter.isalnum() else "-" for letter in name))
    shutil.copytree(good, place)
    plant(place)
    return place


def over(pattern: str, content: bytes) -> Callable[[Path], None]:
    def plant(place: Path) -> None:
        paths = sorted(place.glob(pattern))
        assert paths, pattern
        paths[-1].write_bytes(content)

    return plant


HARMLESS = {"many columns", "many row groups"}
"""Read to their end."""
COMPLETED = ".hoodie/timeline/*_*.deltacommit"
PLACES: dict[str, tuple[dict[str, Callable[[], bytes]], tuple[str, ...]]] = {
    "avro": (AVRO, (COMPLETED,)),
    "json": (JSON, (COMPLETED,)),
    "parquet": (PARQUET, ("*.parquet",)),
    "logs": (LOGS, (".*.log.*",)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLACES)
def test_no_file_of_a_table_kills_who_reads_it_or_takes_him_long(
    kind: str, good: Path, reader: Reader
) -> None:
    bombs, patterns = PLACES[kind]
    ended = {}
    for name, made in bombs.items():
        content = made()
        for pattern in patterns:
            place = planted(good, f"{kind} {name} {pattern}", over(pattern, content))
            ended[name, pattern] = reader.read(place)["ended"]
            shutil.rmtree(place)

    assert [key for key, end in ended.items() if end == TOO_MANY_CALLS] == []
    assert {name for (name, _), end in ended.items() if "rows" in end} <= HARMLESS
    assert reader.read(good)["ended"] == "2 rows"


@pytest.mark.parametrize(
    "name", [".hoodie/hoodie.properties", ".hoodie/timeline/*_*.deltacommit", ".*.log.*"]
)
def test_a_file_that_is_longer_than_memory_is_refused_by_its_size(
    name: str, good: Path, reader: Reader
) -> None:
    (place,) = sorted(good.glob(name))[-1:]
    before_mb = reader.read(good)["peak_mb"]
    sparse(place, 1 << 40)

    answer = reader.read(good)

    assert answer["ended"] == "StorageFailed"
    assert answer["peak_mb"] < before_mb + 100


def test_the_good_table_is_read(good: Path) -> None:
    """Else the others would prove nothing."""
    assert open_table(good).read().num_rows == 2


@pytest.fixture
def any_kind(tmp_path: Path, kind: str) -> Path:
    """A table of the kind, with three commits."""
    place = tmp_path / "any"
    table = create_table(
        place, name="any", schema=SCHEMA, record_key=["id"], ordering=["ts"], **KINDS[kind]
    )
    for number in (1, 1, 2):
        table.write(pa.Table.from_pylist([{"id": str(number), "place": "p", "ts": number}], SCHEMA))
    return place


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("kind", KINDS)
def test_no_damaged_file_kills_who_reads_it(any_kind: Path, kind: str, reader: Reader) -> None:
    chance = random.Random(f"{os.environ['SLUICE_TEST_SEED']} {kind}")
    paths = sorted(path for path in any_kind.rglob("*") if path.is_file() and path.stat().st_size)
    properties = [path for path in paths if path.name == "hoodie.properties"]
    assert properties
    endless = []

    for number in range(100_000 if os.environ.get(WHOLE) else 60):
        path = chance.choice(paths if number % 2 else properties)
        content = path.read_bytes()
        path.write_bytes(fuzzed(content, chance))
        answer = reader.read(any_kind)
        path.write_bytes(content)
        if answer["ended"] == TOO_MANY_CALLS:
            endless.append(path)

    assert endless == []
    assert reader.read(any_kind)["ended"] == "2 rows"
