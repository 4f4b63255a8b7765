"""The asynchronous strategy in the marker server, and what a look sees while others write."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.crash_ports import CountingIds, StillClock, StillScheduler
from tests.workers.markers.harness import (
    SECRET,
    Answer,
    ServerProcess,
    directory_of,
    new_table,
)
from workers.clock import InstantTime, SystemClock, format_instant
from workers.concurrency.heartbeat import heartbeat_path
from workers.concurrency.locks.record import decode_lock
from workers.errors import EarlyConflict
from workers.files.names import BaseFileName, LogFileName, bucket_file_id
from workers.markers import IOType, Marker, MarkerSettings, mint_token, open_markers
from workers.markers.base import EARLY_PARAMETER, MarkerWriter
from workers.markers.client import BASE_PATH
from workers.markers.detecting_markers import DirectDetectingMarkers, ServerDetectingMarkers
from workers.markers.detector import ConflictDetector
from workers.markers.direct import DirectMarkers
from workers.markers.early_conflict import read_early_conflict
from workers.markers.marker import markers_directory
from workers.markers.rivals import RivalSearch, build_claims
from workers.options.early_detection import EarlyDetection, EarlyStrategy
from workers.options.table_options import config_from_properties
from workers.options.write_options import write_options
from workers.ports import Ports
from workers.storage.base import FileInfo
from workers.storage.local import LocalStorage
from workers.table.table import Table
from workers.table_layout import LOCK
from workers.timeline import transitions
from workers.timeline.instant import Action

NOW_MS = SystemClock().now_ms()
OLDER, YOUNGER, THIRD = (format_instant(NOW_MS + n) for n in range(3))
EARLY = EarlyDetection(EarlyStrategy.ASYNCHRONOUS, period_ms=50)


def begins(storage: LocalStorage, instant: InstantTime, writer: str) -> None:
    body = {"writer": writer, "interval_ms": 60_000, "tolerable_misses": 2}
    storage.put(heartbeat_path(instant), json.dumps(body).encode())
    transitions.start(storage, transitions.request(storage, instant, Action.COMMIT, b""))


def base(instant: InstantTime, bucket: int, partition: str = "p") -> Marker:
    name = BaseFileName(bucket_file_id(bucket), "0-0-0", instant).text
    return Marker(partition, name, IOType.MERGE)


def create(server: ServerProcess, storage: LocalStorage, marker: Marker, early: str) -> Answer:
    query = {"markerdirpath": directory_of(storage, YOUNGER), "markername": marker.name}
    token = mint_token(SECRET, storage.location, YOUNGER)
    query[EARLY_PARAMETER] = early
    return server.ask("POST", f"{BASE_PATH}/create", query=query, token=token)


def settings(server: ServerProcess, storage: LocalStorage, instant: InstantTime) -> MarkerSettings:
    token = mint_token(SECRET, storage.location, instant)
    return MarkerSettings("timeline_server_based", server.url, token, EARLY)


def test_a_doomed_writers_next_request_is_answered_with_a_conflict_over_a_kill_too(
    own_server: ServerProcess,
) -> None:
    """The rival's markers are direct ones, which Hudi's detector never sees."""
    storage = new_table(own_server.root)
    begins(storage, OLDER, "older")
    begins(storage, YOUNGER, "younger")
    own_server.start()
    DirectMarkers(storage, OLDER).create(base(OLDER, 1))

    first = create(own_server, storage, base(YOUNGER, 1), "0,50,false")
    wait_until(lambda: read_early_conflict(storage, YOUNGER) is not None)
    refused = create(own_server, storage, base(YOUNGER, 2), "0,50,false")
    own_server.kill()
    own_server.start()
    again = create(own_server, storage, base(YOUNGER, 3), "0,50,false")

    assert (first.status, first.content, first.result) == (200, True, "created")
    assert (refused.status, refused.content, refused.result) == (200, False, "conflict")
    assert (again.status, again.content, again.result) == (200, False, "conflict")
    markers = open_markers(settings(own_server, storage, YOUNGER), storage, YOUNGER)
    with pytest.raises(EarlyConflict):
        markers.create_all([base(YOUNGER, 4)])
    doom = read_early_conflict(storage, YOUNGER)
    assert doom is not None
    assert (doom.rival, doom.rival_writer) == (OLDER, "older")
    assert doom.file_groups == (("p", bucket_file_id(1)),)


def test_one_verdict_of_a_server_never_touches_other_instants(server: ServerProcess) -> None:
    """Hudi 1.2 has one strategy per server, which two instants reset in turn."""
    storage = new_table(server.root, "many")
    for instant in (OLDER, YOUNGER, THIRD):
        begins(storage, instant, f"writer of {instant}")
    writers = {
        instant: open_markers(settings(server, storage, instant), storage, instant)
        for instant in (OLDER, YOUNGER, THIRD)
    }
    writers[OLDER].create(base(OLDER, 1))
    writers[YOUNGER].create(base(YOUNGER, 1))
    wait_until(lambda: read_early_conflict(storage, YOUNGER) is not None)

    for bucket in range(2, 6):
        writers[OLDER].create(base(OLDER, bucket))
        writers[THIRD].create(base(THIRD, 10 + bucket))
        with pytest.raises(EarlyConflict):
            writers[YOUNGER].create(base(YOUNGER, 20 + bucket))
    assert read_early_conflict(storage, OLDER) is read_early_conflict(storage, THIRD) is None


@pytest.mark.parametrize("text", ["", "0,1,false", "0,1000", "x"])
def test_a_request_that_asks_for_nonsense_is_refused_before_anything_is_written(
    server: ServerProcess, storage: LocalStorage, text: str
) -> None:
    answer = create(server, storage, base(YOUNGER, 1), text)

    assert answer.status == 400
    assert storage.list_tree(markers_directory(YOUNGER)) == []


class BlindOnce(LocalStorage):
    """The first listing of heartbeats fails."""

    is_blind = True

    def list_files(self, directory: str) -> Sequence[FileInfo]:
        if self.is_blind and directory.endswith(".heartbeat"):
            self.is_blind = False
            raise OSError("storage is away")
        return super().list_files(directory)


def test_a_look_that_fails_is_repeated_in_the_next_period(tmp_path: Path) -> None:
    """Hudi's checker throws once and never runs again."""
    plain = new_table(tmp_path)
    begins(plain, OLDER, "older")
    begins(plain, YOUNGER, "younger")
    DirectMarkers(plain, OLDER).create(base(OLDER, 1))
    DirectMarkers(plain, YOUNGER).create(base(YOUNGER, 1))
    storage = BlindOnce(plain.location)

    async def watches() -> None:
        with ThreadPoolExecutor(1) as pool:
            detector = ConflictDetector(
                storage, YOUNGER, EARLY, pool=pool, clock=SystemClock(), conflict=None
            )
            detector.watch()
            while detector.is_running:
                await asyncio.sleep(0.01)
            await detector.raise_if_early_conflict()

    with pytest.raises(EarlyConflict):
        asyncio.run(asyncio.wait_for(watches(), 60))
    assert not storage.is_blind


class SlowAnswer(LocalStorage):
    """What is put is there at once, and its answer comes when it is let go."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.answers = threading.Event()

    def put_if_absent(self, path: str, content: bytes) -> bool:
        is_new = super().put_if_absent(path, content)
        assert self.answers.wait(60)
        return is_new


def test_a_request_that_meets_the_verdict_while_it_is_recorded_is_refused(tmp_path: Path) -> None:
    plain = new_table(tmp_path)
    begins(plain, OLDER, "older")
    begins(plain, YOUNGER, "younger")
    DirectMarkers(plain, OLDER).create(base(OLDER, 1))
    DirectMarkers(plain, YOUNGER).create(base(YOUNGER, 1))
    storage = SlowAnswer(plain.location)

    async def asks() -> None:
        with ThreadPoolExecutor(1) as pool:
            detector = ConflictDetector(
                storage, YOUNGER, EARLY, pool=pool, clock=SystemClock(), conflict=None
            )
            detector.watch()
            while read_early_conflict(plain, YOUNGER) is None:
                await asyncio.sleep(0.01)
            asyncio.get_running_loop().call_soon(storage.answers.set)
            await detector.raise_if_early_conflict()

    with pytest.raises(EarlyConflict):
        asyncio.run(asyncio.wait_for(asks(), 60))


def test_d5_a_rival_is_judged_by_the_bound_that_it_names_itself(tmp_path: Path) -> None:
    storage = new_table(tmp_path)
    begins(storage, OLDER, "older")
    DirectMarkers(storage, OLDER).create(base(OLDER, 1))
    ours = build_claims(YOUNGER, [base(YOUNGER, 1)])
    beat = storage.info(heartbeat_path(OLDER))
    assert beat is not None

    within = RivalSearch(storage, YOUNGER, EARLY, StillClock(beat.modified_ms + 120_000)).find(ours)
    beyond = RivalSearch(storage, YOUNGER, EARLY, StillClock(beat.modified_ms + 120_001)).find(ours)

    assert within is not None
    assert beyond is None


def test_d6_a_foreign_writers_file_that_is_being_rewritten_is_never_taken_for_empty(
    tmp_path: Path,
) -> None:
    """Hudi rewrites its marker files in place: at any byte the names seen before still count."""
    storage = new_table(tmp_path)
    begins(storage, OLDER, "a foreign writer")
    path = f"{markers_directory(OLDER)}/MARKERS0"
    names = [base(OLDER, bucket).name for bucket in range(3)]
    content = "".join(f"{name}\n" for name in names).encode()
    storage.put(path, content)
    search = RivalSearch(storage, YOUNGER, EARLY, SystemClock())
    ours = build_claims(YOUNGER, [base(YOUNGER, bucket) for bucket in range(4)])
    whole = search.find(ours)
    more = content + f"{base(OLDER, 3).name}\n".encode()

    for size in range(len(more) + 1):
        storage.put(path, more[:size])
        conflict = search.find(ours)
        assert conflict is not None, size
        assert whole is not None
        expected = len(whole.file_groups) + (size == len(more))
        assert len(conflict.file_groups) == expected, size


def test_d4_equal_keys_are_partition_and_file_group_and_nothing_less(tmp_path: Path) -> None:
    """Substrings of ids, and partitions with `_`, by which Hudi 1.2 goes wrong."""
    storage = new_table(tmp_path)
    begins(storage, OLDER, "older")
    log = LogFileName(bucket_file_id(7), OLDER, 1, "0-0-0").text
    DirectMarkers(storage, OLDER).create_all(
        [base(OLDER, 1, "event_date=1"), Marker("event_date=2", log, IOType.CREATE)]
    )
    search = RivalSearch(storage, YOUNGER, EARLY, SystemClock())

    def met(bucket: int, partition: str) -> bool:
        return search.find(build_claims(YOUNGER, [base(YOUNGER, bucket, partition)])) is not None

    assert met(1, "event_date=1")
    assert met(7, "event_date=2")  # A log and a base file of one file group.
    assert not met(1, "event_date=2")
    assert not met(1, "event_date")
    assert not met(1, "")
    assert not met(11, "event_date=1")


def test_two_ids_of_one_bucket_are_one_file_group(tmp_path: Path) -> None:
    storage = new_table(tmp_path)
    begins(storage, OLDER, "older")
    replaced = bucket_file_id(1, after="20240101000000000")
    name = BaseFileName(replaced, "0-0-0", OLDER).text
    DirectMarkers(storage, OLDER).create(Marker("p", name, IOType.CREATE))

    conflict = RivalSearch(storage, YOUNGER, EARLY, SystemClock()).find(
        build_claims(YOUNGER, [base(YOUNGER, 1)])
    )

    assert conflict is not None
    assert conflict.file_groups == (("p", bucket_file_id(1)),)


FILES = 100
FILES_PER_PERIOD = 4
"""In two slots, of files that take half a second each, with a period of one second."""


def test_of_100_file_groups_a_doomed_writer_in_two_slots_wrote_5_at_most(tmp_path: Path) -> None:
    """The asynchronous look came right before the rival registered, which is the worst moment."""
    storage = new_table(tmp_path)
    begins(storage, OLDER, "older")
    begins(storage, YOUNGER, "younger")
    table = plain_table(storage)
    DirectMarkers(storage, YOUNGER).create_all(base(YOUNGER, bucket) for bucket in range(FILES))
    writing = ServerDetectingMarkers(DirectMarkers(storage, YOUNGER), table, YOUNGER)
    with ThreadPoolExecutor(1) as pool:
        detector = ConflictDetector(
            storage, YOUNGER, EARLY, pool=pool, clock=SystemClock(), conflict=None
        )
        assert not detector.look()
        DirectMarkers(storage, OLDER).create_all(base(OLDER, bucket) for bucket in range(95, 100))

        written = list(files_written(writing, detector))

    assert len(written) <= FILES * 0.05


def files_written(writing: MarkerWriter, detector: ConflictDetector) -> Iterator[int]:
    for number in range(FILES):
        if number and number % FILES_PER_PERIOD == 0:
            detector.look()
        try:
            writing.confirm()
        except EarlyConflict:
            return
        yield number
    raise AssertionError("nobody stopped the writer")


@pytest.mark.parametrize("strategy", [one for one in EarlyStrategy if one.is_direct])
def test_of_100_file_groups_a_doomed_direct_writer_wrote_none_after_its_rival_registered(
    tmp_path: Path, strategy: EarlyStrategy
) -> None:
    storage = new_table(tmp_path)
    begins(storage, OLDER, "older")
    begins(storage, YOUNGER, "younger")
    writing = detecting(storage, strategy)
    writing.create_all(base(YOUNGER, bucket) for bucket in range(FILES))
    writing.confirm()

    DirectMarkers(storage, OLDER).create_all(base(OLDER, bucket) for bucket in range(95, 100))

    with pytest.raises(EarlyConflict):
        writing.confirm()


class WatchedLock(LocalStorage):
    """Whether the table lock was held when a marker was made."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.held: list[bool] = []

    def put_empty(self, paths: Sequence[str], *, is_exclusive: bool = False) -> bool:
        lock = self.info(LOCK.path)
        state = decode_lock(self.read(LOCK.path)) if lock else None
        is_held = state is not None and not state.is_free(SystemClock().now_ms())
        self.held += [is_held for path in paths if ".marker." in path]
        return super().put_empty(paths, is_exclusive=is_exclusive)


@pytest.mark.parametrize("strategy", [one for one in EarlyStrategy if one.is_direct])
def test_the_transactional_strategy_holds_the_lock_until_its_markers_are_there(
    tmp_path: Path, strategy: EarlyStrategy
) -> None:
    """Hudi 1.2 lets the lock go between its look and the marker."""
    plain = new_table(tmp_path)
    begins(plain, YOUNGER, "younger")
    storage = WatchedLock(plain.location)

    detecting(storage, strategy).create_all([base(YOUNGER, 1), base(YOUNGER, 2)])

    assert storage.held == [strategy is EarlyStrategy.TRANSACTIONAL_DIRECT] * 2


def test_storage_that_cannot_be_looked_at_stops_no_writer(tmp_path: Path) -> None:
    plain = new_table(tmp_path)
    begins(plain, OLDER, "older")
    begins(plain, YOUNGER, "younger")
    DirectMarkers(plain, OLDER).create(base(OLDER, 1))
    writing = detecting(BlindOnce(plain.location), EarlyStrategy.SIMPLE_DIRECT)

    writing.create_all([base(YOUNGER, 1)])
    with pytest.raises(EarlyConflict):
        writing.confirm()


def detecting(storage: LocalStorage, strategy: EarlyStrategy) -> DirectDetectingMarkers:
    plain = DirectMarkers(storage, YOUNGER)
    early = EarlyDetection(strategy)
    return DirectDetectingMarkers(plain, plain_table(storage), write_options({}), YOUNGER, early)


def plain_table(storage: LocalStorage) -> Table:
    config = config_from_properties(
        {
            "hoodie.table.name": "t",
            "hoodie.table.version": "9",
            "hoodie.table.type": "COPY_ON_WRITE",
        }
    )
    return Table(storage, config, Ports(SystemClock(), CountingIds("t"), StillScheduler()))


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
