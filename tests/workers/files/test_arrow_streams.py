"""Whatever reads Parquet or Arrow from a Python stream reads it on its own thread: one of Arrow's,
calling Python while the process ends, aborts it now and then.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers.files import base_file
from workers.files.arrow_streams import arrow_stream, parquet_file, parquet_schema
from workers.lakehouse import create_table
from workers.schema.alter import RenameColumn
from workers.storage.local import LocalStorage
from workers.write.groups import RowGroup
from workers.write.staging import by_file_group, read_staged, stage

ROWS = pa.table({"id": list(range(5000)), "value": [str(one) for one in range(5000)]})


OWN_READERS = "sluice-read"
"""How threads are called that a scan starts, and joins before it ends."""


class WatchedStream(io.BytesIO):
    """Knows the threads that read it, but for those that a scan joins."""

    def __init__(self, content: bytes, readers: set[int] | None = None) -> None:
        super().__init__(content)
        self.readers: set[int] = set() if readers is None else readers

    def read(self, size: int | None = -1, /) -> bytes:
        self._note()
        return super().read(size)

    def readinto(self, buffer: Any, /) -> int:
        self._note()
        return super().readinto(buffer)

    def _note(self) -> None:
        if not threading.current_thread().name.startswith(OWN_READERS):
            self.readers.add(threading.get_ident())


class WatchedData(LocalStorage):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.readers: set[int] = set()
        self.opened: list[str] = []

    def open_data(self, path: str) -> IO[bytes]:
        self.opened.append(path)
        return WatchedStream(self.read(path), self.readers)


def parquet_bytes() -> bytes:
    sink = io.BytesIO()
    pq.write_table(ROWS, sink, row_group_size=500)
    return sink.getvalue()


def arrow_bytes(writer: Callable[..., Any]) -> bytes:
    sink = io.BytesIO()
    with writer(sink, ROWS.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(ROWS, max_chunksize=500)
    return sink.getvalue()


READS: dict[str, tuple[bytes, Callable[[Any], object]]] = {
    "parquet": (parquet_bytes(), lambda stream: parquet_file(stream).read(use_threads=False)),
    "schema": (parquet_bytes(), parquet_schema),
    "base file": (parquet_bytes(), base_file.read_parquet),
    "columns": (
        arrow_bytes(pa.ipc.new_stream),
        lambda stream: arrow_stream(stream, [1]).read_all(),
    ),
    "arrow stream": (
        arrow_bytes(pa.ipc.new_stream),
        lambda stream: arrow_stream(stream).read_all(),
    ),
}


@pytest.mark.parametrize("name", READS)
def test_stream_is_read_by_the_thread_that_asks(name: str) -> None:
    content, read = READS[name]
    stream = WatchedStream(content)

    read(stream)

    assert stream.readers == {threading.get_ident()}


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("index", ["BUCKET", "BLOOM"])
def test_table_is_written_read_and_served_by_its_own_threads(
    tmp_path: Path, kind: str, index: str
) -> None:
    storage = WatchedData(tmp_path / "table")
    table = create_table(
        storage.location,
        name="watched",
        schema=ROWS.schema,
        record_key=["id"],
        table_type=kind,
        options={"hoodie.index.type": index},
        storage=storage,
    )

    work_on(table)

    assert any(path.endswith(".parquet") for path in storage.opened)
    assert storage.readers == {threading.get_ident()}


def test_reading_ahead_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pyarrow does by itself."""
    monkeypatch.setattr(base_file, "parquet_file", partial(pq.ParquetFile, pre_buffer=True))
    stream = WatchedStream(parquet_bytes())

    base_file.read_parquet(stream)

    assert stream.readers - {threading.get_ident()}


def test_staged_rows_are_read_by_the_thread_that_asks(tmp_path: Path) -> None:
    storage = WatchedData(tmp_path / "table")
    groups = [RowGroup("", slot, ROWS.slice(500 * slot, 500), 0) for slot in range(4)]
    staged = by_file_group([stage(groups, storage, "20240101000000000", "0-0")])

    rows = [one.rows for one in read_staged(staged, storage)]
    values = [one.rows for one in read_staged(staged[2:], storage, ["value"])]

    assert pa.concat_tables(rows).equals(ROWS.slice(0, 2000))
    assert pa.concat_tables(values).equals(ROWS.select(["value"]).slice(1000, 1000))
    assert storage.readers == {threading.get_ident()}


def work_on(table: Any) -> None:
    table.write(ROWS)
    table.write(ROWS.slice(10, 100))
    table.read(columns=["value"])
    table.delete(predicate="id < 5")
    if table.table.config.table_type == "MERGE_ON_READ":
        table.compact()
    table.cluster(["value"])
    table.alter(RenameColumn("value", "text"))
    assert table.read().num_rows == 4995


@pytest.mark.parametrize("package", ["controlplane", "web"])
def test_pages_open_no_such_stream_of_their_own(package: str) -> None:
    """Ruff, which refuses it in the engine, does not look there."""
    sources = list((Path(__file__).parents[3] / package).rglob("*.py"))
    own = re.compile(r"\bipc\.open_|\bpq\.(ParquetFile|read_)")

    assert sources
    assert [one.name for one in sources if own.search(one.read_text(encoding="utf-8"))] == []
