"""The marker server killed at random moments: what it acknowledged stays, and work goes on."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.workers.markers.harness import (
    INSTANT,
    SECRET,
    ServerProcess,
    decide,
    new_table,
)
from workers.clock import SystemClock
from workers.errors import InstantRolledBack, LakehouseError
from workers.markers import (
    IOType,
    Marker,
    MarkerWriter,
    ServerMarkers,
    markers_directory,
    mint_token,
    open_markers,
    read_markers,
)
from workers.storage.local import LocalStorage

ROUNDS = 20
WRITERS = 8
DIRECTORY = markers_directory(INSTANT)


def names(storage: LocalStorage) -> list[str]:
    return sorted(marker.name for marker in read_markers(storage, INSTANT))


def impatient(server: ServerProcess, storage: LocalStorage) -> ServerMarkers:
    token = mint_token(SECRET, storage.location, INSTANT)
    return ServerMarkers(server.url, token, storage.location, INSTANT, retry_window_s=0.0)


def test_whatever_was_acknowledged_survives_sigkill_and_appending_goes_on(
    own_server: ServerProcess,
) -> None:
    chance = random.Random(32)
    storage = new_table(own_server.root)
    acknowledged: set[str] = set()

    for number in range(ROUNDS):
        own_server.start()
        # The set after the restart is the parse of the files, and it can be added to.
        assert own_server.all(storage) == names(storage), number
        first = f"p={number}/first.parquet.marker.CREATE"
        assert own_server.create(storage, first).result == "created"
        acknowledged.add(first)

        stop = threading.Event()
        with ThreadPoolExecutor(WRITERS) as threads:
            shares = [
                threads.submit(_create_until, stop, own_server, storage, f"p={number}/w{writer}")
                for writer in range(WRITERS)
            ]
            SystemClock().sleep(chance.uniform(0.02, 0.25))
            own_server.kill()
            stop.set()
            for share in shares:
                acknowledged |= share.result()

        assert acknowledged <= set(names(storage)), number
        _tear_a_tail(storage, chance)

    files = {info.name for info in storage.list_files(DIRECTORY)} - {"MARKERS.type"}
    files = {name for name in files if name.startswith("MARKERS")}
    assert len(acknowledged) > 10 * ROUNDS
    assert len(files) <= 20


def _create_until(
    stop: threading.Event, server: ServerProcess, storage: LocalStorage, prefix: str
) -> set[str]:
    """Markers that this writer was told of, until the server is gone."""
    markers = impatient(server, storage)
    told: set[str] = set()
    number = 0
    while not stop.is_set():
        batch = [Marker(prefix, f"f{number + n}.parquet", IOType.CREATE) for n in range(3)]
        number += 3
        try:
            markers.create(batch[0])
            told.add(batch[0].name)
            markers.create_all(batch[1:])
            told |= {marker.name for marker in batch[1:]}
        except LakehouseError:
            break
    return told


def _tear_a_tail(storage: LocalStorage, chance: random.Random) -> None:
    """Leave half of a line that nobody was told of, as a crash inside the append does."""
    chosen = chance.choice(storage.list_files(DIRECTORY))
    line = b"p=torn/never-acknowledged.parquet.marker.CREATE"
    if chosen.name != "MARKERS.type":
        storage.append(chosen.path, line[: chance.randrange(1, len(line))])


def test_writers_ride_over_a_restart_without_noticing(own_server: ServerProcess) -> None:
    own_server.start()
    storage = new_table(own_server.root)
    markers = open_markers(own_server.settings(storage), storage, INSTANT)
    wanted = [Marker("p=1", f"f{number}.parquet", IOType.CREATE) for number in range(600)]

    with ThreadPoolExecutor(WRITERS) as threads:
        shares = [threads.submit(_create_slowly, markers, wanted[n::WRITERS]) for n in range(8)]
        for _ in range(2):
            SystemClock().sleep(0.2)
            own_server.kill()
            own_server.start()
        for share in shares:
            share.result()

    assert names(storage) == sorted(marker.name for marker in wanted)


def _create_slowly(markers: MarkerWriter, share: list[Marker]) -> None:
    for marker in share:
        markers.create(marker)
        SystemClock().sleep(0.01)


@pytest.mark.parametrize("damage", ["torn tail", "no type file", "empty type file"])
def test_a_damaged_directory_is_taken_over(own_server: ServerProcess, damage: str) -> None:
    storage = new_table(own_server.root)
    kept = [f"p=1/f{number}.parquet.marker.CREATE" for number in range(3)]
    storage.put(f"{DIRECTORY}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    storage.put(f"{DIRECTORY}/MARKERS0", "".join(f"{name}\n" for name in kept).encode())
    match damage:
        case "torn tail":
            storage.append(f"{DIRECTORY}/MARKERS0", b"p=1/half")
        case "no type file":
            storage.delete(f"{DIRECTORY}/MARKERS.type")
        case _:
            storage.put(f"{DIRECTORY}/MARKERS.type", b"")
    own_server.start()

    new = "p=1/new.parquet.marker.CREATE"
    results = [own_server.create(storage, name).result for name in (kept[0], new)]

    assert results == ["exists", "created"]
    assert own_server.all(storage) == sorted([*kept, new]) == names(storage)
    assert storage.info(f"{DIRECTORY}/MARKERS.type") is not None


@pytest.fixture
def pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that ends a pause of the writer `slow` between flush and answer."""
    release = tmp_path / "release"
    order = (
        f'[{{"point":"marker_after_flush","writer":"slow","action":"pause","release":"{release}"}}]'
    )
    monkeypatch.setenv("SLUICE_ALLOW_STOP_POINTS", "1")
    monkeypatch.setenv("SLUICE_STOP_POINTS", order)
    return release


def test_killed_between_flush_and_answer_the_retry_is_told_that_it_created_the_marker(
    own_server: ServerProcess, pause: Path
) -> None:
    storage = new_table(own_server.root)
    storage.put(f".hoodie/.heartbeat/{INSTANT}", b'{"writer": "slow"}')
    own_server.start()
    markers = open_markers(own_server.settings(storage), storage, INSTANT)
    marker = Marker("p=1", "f.parquet", IOType.CREATE)

    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(markers.create, marker)
        _await(pause.with_name("release.reached").exists)
        assert not answer.done()
        own_server.kill()
        pause.touch()
        own_server.start()

        assert answer.result(timeout=20) == "created"
    assert names(storage) == [marker.name]
    assert markers.create(marker) == "exists"


def test_a_rollback_decided_between_flush_and_answer_wins(
    own_server: ServerProcess, pause: Path
) -> None:
    storage = new_table(own_server.root)
    storage.put(f".hoodie/.heartbeat/{INSTANT}", b'{"writer": "slow"}')
    own_server.start()
    markers = open_markers(own_server.settings(storage), storage, INSTANT)

    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(markers.create, Marker("p=1", "f.parquet", IOType.CREATE))
        _await(pause.with_name("release.reached").exists)
        decide(storage, "rollback")
        pause.touch()

        with pytest.raises(InstantRolledBack):
            answer.result(timeout=20)
    assert storage.list_directories(".hoodie/.temp") == []


def _await(condition: Callable[[], bool]) -> None:
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + 20
    while not condition():
        assert clock.monotonic_s() < deadline_s
        clock.sleep(0.01)
