"""Log files that are damaged after their commit: rows that were committed are never left out
without a word, and Hudi's torn attempts are read past as Hudi reads past them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from tests.support.scenario_table import schema_of
from workers.errors import LakehouseError, MalformedTable
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.timeline.metadata import PROCESS_KEY, read_commit_metadata

SCHEMA = schema_of(id=pa.string(), ts=pa.int64())
ROWS: dict[str, list[Any]] = {"id": ["a", "b"], "ts": [1, 2]}


@pytest.fixture
def table(tmp_path: Path) -> LakehouseTable:
    """A base file that holds `a`, and a log that adds `b`."""
    table = create_table(
        tmp_path, name="t", schema=SCHEMA, record_key=["id"], ordering=["ts"],
        table_type="MERGE_ON_READ", options={"hoodie.bucket.index.num.buckets": "1"},
    )  # fmt: skip
    for at in (0, 1):
        table.write(pa.table({name: values[at : at + 1] for name, values in ROWS.items()}))
    assert rows_of(table) == ROWS
    return table


def rows_of(table: LakehouseTable) -> dict[str, list[Any]]:
    rows = open_table(table.location).read()
    return cast("dict[str, list[Any]]", rows.sort_by("id").to_pydict())


def log_of(table: LakehouseTable) -> Path:
    [log] = Path(table.location).glob(".*.log.*")
    return log


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut in a block": lambda content: content[:-20],
    "empty": lambda content: b"",
    "a length changed": lambda content: content[:6] + b"\x01" + content[7:],
    "the magic changed": lambda content: b"?" + content[1:],
    "bytes behind the end": lambda content: content + b"#HUDI#" + b"\x00" * 20,
}
READS: dict[str, Callable[[LakehouseTable], object]] = {
    "read": lambda table: table.read(),
    "scan": lambda table: table.scan(columns=["id"], where="ts = 2").to_arrow(),
    "compact": lambda table: table.compact(),
}


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("reading", READS)
def test_a_committed_log_that_is_damaged_is_named_and_comes_back_whole(
    damage: str, reading: str, table: LakehouseTable
) -> None:
    log = log_of(table)
    content = log.read_bytes()
    log.write_bytes(DAMAGES[damage](content))

    with pytest.raises(MalformedTable, match=r"committed log file is damaged.*\.log\."):
        READS[reading](open_table(table.location))

    log.write_bytes(content)
    assert rows_of(table) == ROWS
    open_table(table.location).compact()
    assert rows_of(table) == ROWS


def test_it_is_named_also_once_its_commit_is_archived(table: LakehouseTable) -> None:
    log = log_of(table)
    for at in range(4):
        other = pa.table({"id": ["b"], "ts": [10 + at]})
        table.write(other, options={"hoodie.compact.inline": "false"})
    table.archive(
        {
            "hoodie.keep.min.commits": "2",
            "hoodie.keep.max.commits": "3",
            "sluice.archive.uncompacted.logs": "true",
        }
    )
    instant = log.name.split("_")[1].split(".")[0]
    assert instant not in {one.requested_at for one in table.timeline()}
    log.write_bytes(log.read_bytes()[:-20])

    with pytest.raises(MalformedTable, match="committed log file is damaged"):
        open_table(table.location).read()


def test_a_torn_log_of_another_engine_is_read_past_as_that_does(table: LakehouseTable) -> None:
    """Hudi names the files of attempts that died in its commits, so that they are rolled back."""
    newest = max(Path(table.location, ".hoodie/timeline").glob("*_*.deltacommit"))
    metadata = read_commit_metadata(newest.read_bytes())
    theirs = {key: text for key, text in metadata.extra_metadata.items() if key != PROCESS_KEY}
    action = open_table(table.location).timeline()[-1].action
    other = newest.with_name("other")
    other.write_bytes(replace(metadata, extra_metadata=theirs).encode(action))
    other.rename(newest)  # What was read of the former file is remembered.
    log = log_of(table)
    log.write_bytes(log.read_bytes()[:-20])

    assert rows_of(table) == {"id": ["a"], "ts": [1]}


def test_everything_that_reads_it_is_refused_before_its_first_effect(table: LakehouseTable) -> None:
    log = log_of(table)
    log.write_bytes(log.read_bytes()[:-20])
    before = {path.name for path in Path(table.location).glob("*.parquet")}

    with pytest.raises(LakehouseError):
        open_table(table.location).compact()

    assert {path.name for path in Path(table.location).glob("*.parquet")} == before
