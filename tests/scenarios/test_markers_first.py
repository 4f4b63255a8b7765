"""Every data file has a durable marker before its first byte (MK2), by either type of markers."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.support.fixtures import MarkerServerAddress
from tests.support.scenario_table import READINGS, ScenarioTables
from tests.support.watched_storage import WatchedStorage
from workers.files.names import parse_name_instant
from workers.markers.store import read_markers


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("kind", ["direct", "timeline_server_based"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_when_a_data_file_is_opened_its_marker_stands(
    tables: ScenarioTables,
    marker_server: MarkerServerAddress,
    monkeypatch: pytest.MonkeyPatch,
    table_type: Literal["COPY_ON_WRITE", "MERGE_ON_READ"],
    kind: str,
) -> None:
    monkeypatch.setenv("SLUICE_MARKER_SECRET", marker_server.secret)
    options = {"hoodie.write.markers.type": kind, "sluice.marker.url": marker_server.url}
    table = tables(table_type=table_type, schema=READINGS, partition_by=["place"], ordering=["ts"])
    opened: list[str] = []

    def look(call: str, path: str) -> None:
        instant = parse_name_instant(path.rpartition("/")[2]) if call == "create_data" else None
        if instant is not None:
            opened.append(path)
            marked = {marker.data_path for marker in read_markers(table.storage, instant)}
            assert path in marked

    for number in range(3):
        storage = WatchedStorage(table.location, before=look)
        writer = table.writer(f"w{number}", options=options, storage=storage)
        rows = [{"id": f"k{n}", "ts": number, "value": n, "place": f"p{n % 2}"} for n in range(8)]
        writer.upsert_and_commit(*rows)

    assert len(opened) >= 6


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_direct_markers_mirror_the_data_files_and_name_the_operation(
    tables: ScenarioTables, table_type: Literal["COPY_ON_WRITE", "MERGE_ON_READ"]
) -> None:
    """New base files and log files have CREATE markers, rewritten base files MERGE markers."""
    table = tables(table_type=table_type, schema=READINGS, partition_by=["place"], ordering=["ts"])
    kinds_by_round: list[set[str]] = []
    for second in range(2):
        writer = table.writer("w").upsert({"id": "k", "ts": second, "value": 1, "place": "p"})
        directory = f".hoodie/.temp/{writer.last_instant}"
        markers = table.storage.list_tree(directory)
        [data_file] = [status.stat.path for status in writer.written]
        operations = {marker.path.rpartition(".")[2] for marker in markers}
        kinds_by_round.append(operations)
        assert {(marker.path.rpartition(".marker.")[0], marker.size) for marker in markers} == {
            (f"{directory}/{data_file}", 0)
        }
        writer.wins()

    assert kinds_by_round == [{"CREATE"}, {"CREATE" if table_type == "MERGE_ON_READ" else "MERGE"}]
