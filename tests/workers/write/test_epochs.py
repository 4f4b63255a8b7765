"""An epoch of a stream is written once, however often and by whomever it is sent."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.decided_conflicts import conflict_rules
from workers import failpoints
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable, create_table, open_table
from workers.write.context import Operation
from workers.write.epochs import EPOCHS_KEY, Epoch, write_epoch

OPTIONS = {
    "hoodie.write.markers.type": "direct",
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
}
NON_BLOCKING = {**OPTIONS, "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL"}
_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "n": pa.int64()}
SCHEMA = pa.schema(_TYPES)


@pytest.fixture
def table(tmp_path: Path) -> LakehouseTable:
    return create_table(
        tmp_path / "table",
        name="epochs",
        schema=SCHEMA,
        record_key=["id"],
        options={"hoodie.bucket.index.num.buckets": "1"},
    )


def rows(number: int) -> pa.Table:
    return pa.table({"id": [f"k{number}"], "n": [number]}, schema=SCHEMA)


def send(
    table: LakehouseTable,
    epoch: Epoch,
    operation: Operation = "insert",
    options: Mapping[str, str] = OPTIONS,
) -> object:
    """As a process of its own does: nothing is remembered of what was sent before."""
    opened = open_table(table.location).table
    return write_epoch(opened, rows(epoch.number), epoch, operation, options)


def numbers(table: LakehouseTable) -> list[int]:
    return sorted(open_table(table.location).read().column("n").to_pylist())


def epochs(count: int, *, stream: str = "s", query: str = "q") -> Iterator[Epoch]:
    yield from (Epoch(stream, number, query) for number in range(count))


def test_epoch_that_is_sent_again_is_not_written_again(table: LakehouseTable) -> None:
    zero, first = epochs(2)
    other = Epoch("other", 0, "of another query")

    assert isinstance(send(table, zero), Committed)
    assert send(table, zero) is None
    assert isinstance(send(table, other), Committed)
    table.write(pa.table({"id": ["x"], "n": [9]}, schema=SCHEMA), options=OPTIONS)
    assert send(table, zero) is None
    assert isinstance(send(table, first), Committed)
    assert [send(table, first), send(table, first), send(table, other)] == [None, None, None]

    assert numbers(table) == [0, 1, 9]


def test_epoch_is_known_when_its_commit_is_archived(table: LakehouseTable) -> None:
    [*_, last] = [epoch for epoch in epochs(2) if send(table, epoch)]
    for number in range(5, 12):
        table.write(rows(number), options=OPTIONS)
    table.archive({"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"})
    assert len(open_table(table.location).table.timeline().list_completed_writes()) < 4

    assert send(table, last) is None
    with pytest.raises(InvalidInput, match="another streaming query"):
        send(table, dataclasses.replace(last, number=2, query="another"))

    assert numbers(table) == [0, 1, *range(5, 12)]


def test_epoch_that_was_decided_and_not_published_is_not_written_again(
    table: LakehouseTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    [zero] = epochs(1)

    def die(point: str, **_: object) -> None:
        if point == "after_decision":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "hit_failpoint", die)
        with pytest.raises(KeyboardInterrupt):
            send(table, zero)

    assert send(table, zero) is None
    assert numbers(table) == [0]


def test_two_drivers_that_send_an_epoch_at_once_write_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second driver comes when the first has looked and has written its files; nothing but the
    epoch tells non-blocking writers apart.
    """
    table = create_table(
        tmp_path / "appended",
        name="appended",
        schema=SCHEMA,
        record_key=["id"],
        table_type="MERGE_ON_READ",
        options={"hoodie.bucket.index.num.buckets": "1"},
    )
    zero, first = epochs(2)
    meanwhile: list[object] = []

    def interrupted(point: str, **_: object) -> None:
        if point == "after_data" and not meanwhile:
            meanwhile.append("begun")
            meanwhile.append(send(table, first, "upsert", NON_BLOCKING))

    send(table, zero, "upsert", NON_BLOCKING)
    before = len(table.table.timeline().list_completed_writes())
    monkeypatch.setattr(failpoints, "hit_failpoint", interrupted)

    assert send(table, first, "upsert", NON_BLOCKING) is None
    assert isinstance(meanwhile[1], Committed)
    assert conflict_rules(table.table.storage) == ["write_epoch"]
    assert len(table.table.timeline().list_completed_writes()) == before + 1
    assert numbers(table) == [0, 1]


def test_epoch_whose_commit_was_rolled_back_is_written(table: LakehouseTable) -> None:
    zero, first = epochs(2)
    send(table, zero)
    taken_back = send(table, first)
    assert isinstance(taken_back, Committed)
    plan: Any = table.rollback(taken_back.instant)
    table.rollback(
        taken_back.instant, dry_run=False, expected_plan_hash=plan.plan_hash, reason="test"
    )

    assert send(table, zero) is None
    assert isinstance(send(table, first), Committed)
    assert numbers(table) == [0, 1]


@pytest.mark.parametrize(
    ("epoch", "reason"),
    [
        (Epoch("s", 0, "q"), "put back to an older state"),
        (Epoch("s", 0, "new"), "belongs to another streaming query"),
        (Epoch("s", 5, "new"), "belongs to another streaming query"),
    ],
)
def test_epoch_that_cannot_follow_is_refused(
    table: LakehouseTable, epoch: Epoch, reason: str
) -> None:
    for number in (0, 3):  # Those between were empty.
        send(table, Epoch("s", number, "q"))

    with pytest.raises(InvalidInput, match=reason):
        send(table, epoch)

    assert numbers(table) == [0, 3]


def test_stream_of_hudi_goes_on(table: LakehouseTable) -> None:
    """Hudi's commits name the epoch under the same key, and no query."""
    assert dict(Epoch("s", 4, "q").extra)[EPOCHS_KEY] == '{"s": "4"}'
    send(table, Epoch("s", 4, ""))

    assert send(table, Epoch("s", 4, "q")) is None
    assert isinstance(send(table, Epoch("s", 5, "q")), Committed)
    assert numbers(table) == [4, 5]
