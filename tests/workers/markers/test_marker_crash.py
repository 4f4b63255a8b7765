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
    ServerProcess,
    decide,
    new_table,
)
from tests.workers.markers.kills import Asker, ForkedServer, Request, forked_server
from workers.clock import SystemClock
from workers.errors import InstantRolledBack
from workers.markers import (
    IOType,
    Marker,
    MarkerWriter,
    markers_directory,
    open_markers,
    read_markers,
)
from workers.storage.local import LocalStorage

pytestmark = pytest.mark.process

KILLS_PER_TABLE = 20
WRITERS = 8
ANSWERED_BEFORE_A_KILL = (0, 60)
DIRECTORY = markers_directory(INSTANT)


def names(storage: LocalStorage) -> list[str]:
    return sorted(marker.name for marker in read_markers(storage, INSTANT))


@pytest.mark.parametrize(
    "kills",
    [
        12,
        pytest.param(200, marks=pytest.mark.slow),
        pytest.param(2_000, marks=[pytest.mark.soak, pytest.mark.timeout(0)]),
    ],
    ids=["few", "slow", "soak"],
)
def test_whatever_was_acknowledged_survives_sigkill_and_appending_goes_on(
    tmp_path: Path, kills: int
) -> None:
    seed = 32
    chance = random.Random(seed)
    root = tmp_path / "tables"
    root.mkdir()
    acknowledged = 0
    with forked_server(root) as server:
        for table in range(-(-kills // KILLS_PER_TABLE)):
            storage = new_table(root, f"t{table}")
            left = min(KILLS_PER_TABLE, kills - table * KILLS_PER_TABLE)
            answered: list[Request] = []
            unanswered: list[Request] = []
            for number in range(left):
                server.start()
                _check_promises(server, storage, answered, unanswered, chance)
                askers = [Asker(server, storage, f"p={number}/w{each}") for each in range(WRITERS)]
                _kill_under_load(server, askers, chance)
                answered += [request for asker in askers for request in asker.answered]
                unanswered = [request for asker in askers for request in asker.unanswered]
                _tear_a_tail(storage, chance)
            server.start()
            _check_promises(server, storage, answered, unanswered, chance)
            server.kill()
            acknowledged += sum(len(request.names) for request in answered)

            files = {info.name for info in storage.list_files(DIRECTORY)}
            assert len([name for name in files if name.startswith("MARKERS")]) <= 21
    assert acknowledged > 20 * kills, f"too little load, seed={seed}"


def _check_promises(
    server: ServerProcess,
    storage: LocalStorage,
    answered: list[Request],
    unanswered: list[Request],
    chance: random.Random,
) -> None:
    """Memory is the parse of the files, all that was promised is there, and is promised again."""
    stored = server.all(storage)
    assert isinstance(stored, list)
    assert stored == names(storage)
    assert {name for request in answered for name in request.names} <= set(stored)

    someone = Asker(server, storage, "")
    for request in [*unanswered, *chance.sample(answered, min(3, len(answered)))]:
        assert someone.answers(request) == ["created"] * len(request.names), request
        other = Request(f"{request.request_id}-other", request.names)
        assert someone.answers(other) == ["exists"] * len(request.names), request
    answered += unanswered


def _kill_under_load(server: ForkedServer, askers: list[Asker], chance: random.Random) -> None:
    stop = threading.Event()
    with ThreadPoolExecutor(WRITERS) as threads:
        asking = [threads.submit(asker.ask_until, stop) for asker in askers]
        enough = chance.randint(*ANSWERED_BEFORE_A_KILL)
        _await(lambda: sum(len(asker.answered) for asker in askers) >= enough)
        server.kill()
        stop.set()
        for each in asking:
            each.result()


def _tear_a_tail(storage: LocalStorage, chance: random.Random) -> None:
    """Leave half of a line that nobody was told of, as a crash inside the append does."""
    files = [info for info in storage.list_files(DIRECTORY) if info.name != "MARKERS.type"]
    if not files:
        return
    chosen = chance.choice(files)
    line = b"p=torn/never-acknowledged.parquet.marker.CREATE"
    if chosen.name.startswith("REQUESTS"):
        line = b"1000000\tnobody\t" + line
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

        assert answer.result(timeout=60) == "created"
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
            answer.result(timeout=60)
    assert storage.list_directories(".hoodie/.temp") == []


def _await(condition: Callable[[], bool]) -> None:
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + 60
    while not condition():
        assert clock.monotonic_s() < deadline_s
        clock.sleep(0.01)
