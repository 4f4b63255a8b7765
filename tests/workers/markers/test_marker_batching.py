"""Group commit in one process, over storages that are slow, fail, or lose a race on purpose."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from tests.workers.markers.harness import INSTANT, decide
from tests.workers.markers.troubled import OUT_S, TroubledStorage, name, run, stored
from workers.clock import SystemClock
from workers.errors import InstantRolledBack, MarkerRefused
from workers.markers import delete_markers, markers_directory
from workers.markers.batcher import BatchSettings, MarkerDirectory, MarkerServerBusy
from workers.markers.statistics import Statistics

DIRECTORY = markers_directory(INSTANT)


def test_the_same_request_again_gets_its_first_answer(troubled: TroubledStorage) -> None:
    async def story(directory: MarkerDirectory) -> None:
        assert await directory.create([name(1)], "r1") == ["created"]
        assert await directory.create([name(1)], "r1") == ["created"]
        assert await directory.create([name(1)], "r2") == ["exists"]
        assert await directory.create([name(1)], None) == ["exists"]
        assert await directory.create([name(2)], None) == ["created"]
        assert await directory.create([name(2)], None) == ["exists"]
        assert await directory.create([name(3), name(1), name(3)], "r4") == [
            "created",
            "exists",
            "created",
        ]

    run(troubled, story)

    assert stored(troubled) == sorted([name(1), name(2), name(3)])
    assert len(troubled.appends) == 3


def test_what_a_batch_costs_does_not_grow_with_what_was_written(troubled: TroubledStorage) -> None:
    async def story(directory: MarkerDirectory) -> None:
        for number in range(200):
            await directory.create([name(number)], None)

    run(troubled, story)

    assert {len(content) for _, content in troubled.appends[100:]} == {len(name(100)) + 1}
    assert {len(content) for content in troubled.recorded[100:]} == {len(f"100\t\t{name(100)}\n")}
    assert len({path for path, _ in troubled.appends}) == 20


def test_requests_behind_a_flush_share_the_next_one(troubled: TroubledStorage) -> None:
    statistics = Statistics(since_ms=0)
    release = threading.Event()
    troubled.before_append = _until(release)

    async def story(directory: MarkerDirectory) -> None:
        first = asyncio.create_task(directory.create([name(0)], None))
        while directory.in_flight == 0:
            await asyncio.sleep(0)
        rest = [asyncio.create_task(directory.create([name(n)], None)) for n in range(1, 501)]
        await asyncio.sleep(0.01)
        assert not first.done()
        assert not any(task.done() for task in rest)
        release.set()
        await asyncio.gather(first, *rest)

    run(troubled, story, BatchSettings(interval_ms=10_000), statistics)

    assert len(troubled.appends) == 2
    assert statistics.summary()["batch_sizes"] == {"1": 1, "256-511": 1}


def test_a_slow_flush_holds_nobody_longer_than_the_interval(troubled: TroubledStorage) -> None:
    is_first = threading.Event()
    release = threading.Event()

    def hold_the_first() -> None:
        if not is_first.is_set():
            is_first.set()
            release.wait(OUT_S)

    troubled.before_append = hold_the_first

    async def story(directory: MarkerDirectory) -> None:
        slow = asyncio.create_task(directory.create([name(0)], None))
        await asyncio.get_running_loop().run_in_executor(None, is_first.wait)
        assert await directory.create([name(1)], None) == ["created"]
        assert not slow.done()
        release.set()
        await slow

    run(troubled, story, BatchSettings(interval_ms=20))

    assert [path for path, _ in troubled.appends] == [
        f"{DIRECTORY}/MARKERS0",
        f"{DIRECTORY}/MARKERS1",
    ]


def slow_by(seconds: float) -> Callable[[], None]:
    return lambda: SystemClock().sleep(seconds)


def test_behind_a_flush_of_slow_storage_nobody_waits_for_its_end(
    troubled: TroubledStorage,
) -> None:
    is_held, release = threading.Event(), threading.Event()

    def hold() -> None:
        is_held.set()
        assert release.wait(OUT_S)

    async def story(directory: MarkerDirectory) -> None:
        troubled.before_append = slow_by(0.02)
        await directory.create([name(0)], None)
        troubled.before_append = hold
        held = asyncio.create_task(directory.create([name(1)], None))
        await asyncio.get_running_loop().run_in_executor(None, is_held.wait)
        troubled.before_append = None
        assert await directory.create([name(2)], None) == ["created"]
        assert not held.done()
        release.set()
        await held

    run(troubled, story, BatchSettings(interval_ms=10_000))


def test_writers_of_slow_storage_that_were_answered_together_ask_together(
    troubled: TroubledStorage,
) -> None:
    async def writer(directory: MarkerDirectory, number: int) -> None:
        for n in range(5):
            for _ in range(number):
                await asyncio.sleep(0)  # Not all in one turn of the loop.
            await directory.create([name(number * 100 + n)], None)

    async def story(directory: MarkerDirectory) -> None:
        await directory.create([name(9_999)], None)
        await asyncio.gather(*(writer(directory, number) for number in range(16)))

    troubled.before_append = slow_by(0.2)
    run(troubled, story)

    # Not one for each of the 80 requests: who came first of all may keep a beat of its own.
    assert len(troubled.appends) <= 1 + 5 * 3


def test_batches_go_to_the_files_in_turn(troubled: TroubledStorage) -> None:
    async def story(directory: MarkerDirectory) -> None:
        for number in range(5):
            await directory.create([name(number)], None)

    run(troubled, story, BatchSettings(num_threads=3))

    files = [path.rpartition("/")[2] for path, _ in troubled.appends]
    assert files == ["MARKERS0", "MARKERS1", "MARKERS2", "MARKERS0", "MARKERS1"]


def test_a_set_interval_is_waited_for(troubled: TroubledStorage) -> None:
    clock = SystemClock()

    async def story(directory: MarkerDirectory) -> None:
        started_s = clock.monotonic_s()
        await asyncio.gather(*(directory.create([name(n)], None) for n in range(10)))
        assert clock.monotonic_s() - started_s >= 0.2

    run(troubled, story, BatchSettings(interval_ms=200, waits_interval=True))

    assert len(troubled.appends) == 1


def test_a_duplicate_is_not_acknowledged_before_the_original_is_durable(
    troubled: TroubledStorage,
) -> None:
    release = threading.Event()
    troubled.before_append = _until(release)

    async def story(directory: MarkerDirectory) -> None:
        original = asyncio.create_task(directory.create([name(1)], "r1"))
        while directory.in_flight == 0:
            await asyncio.sleep(0)
        duplicate = asyncio.create_task(directory.create([name(1)], "r2"))
        await asyncio.sleep(0.05)
        assert not duplicate.done()
        release.set()
        assert await original == ["created"]
        assert await duplicate == ["exists"]

    run(troubled, story)


@pytest.mark.parametrize("torn_to", [0, 1, 10, len(name(1)), len(name(1)) + 1])
def test_a_failed_flush_is_never_acknowledged_and_the_retry_works(
    troubled: TroubledStorage, torn_to: int
) -> None:
    statistics = Statistics(since_ms=0)

    async def story(directory: MarkerDirectory) -> None:
        troubled.torn_to = torn_to
        twice = [directory.create([name(1)], "r1"), directory.create([name(1)], "r2")]
        for failed in await asyncio.gather(*twice, return_exceptions=True):
            assert isinstance(failed, MarkerRefused)
        troubled.torn_to = None
        assert await directory.create([name(1)], "r1") == ["created"]
        for number in range(2, 30):  # Round robin comes back to the torn file.
            await directory.create([name(number)], None)

    run(troubled, story, statistics=statistics)

    assert stored(troubled) == sorted(map(name, range(1, 30)))
    assert statistics.flush_errors == 1


def test_one_directorys_failure_keeps_no_file_busy(troubled: TroubledStorage) -> None:
    async def story(directory: MarkerDirectory) -> None:
        troubled.torn_to = 0
        for number in range(10):
            with pytest.raises(MarkerRefused):
                await directory.create([name(number)], None)
        troubled.torn_to = None
        assert await directory.create([name(1)], None) == ["created"]

    run(troubled, story, BatchSettings(num_threads=2))


def test_a_full_queue_refuses_at_once_and_holds_what_it_has(troubled: TroubledStorage) -> None:
    release = threading.Event()
    troubled.before_append = _until(release)

    async def story(directory: MarkerDirectory) -> None:
        flushing = asyncio.create_task(directory.create([name(0)], None))
        while directory.in_flight == 0:
            await asyncio.sleep(0)
        waiting = [asyncio.create_task(directory.create([name(n)], None)) for n in range(1, 6)]
        await asyncio.sleep(0.01)
        with pytest.raises(MarkerServerBusy):
            await directory.create([name(99)], None)
        release.set()
        await asyncio.gather(flushing, *waiting)
        assert await directory.create([name(99)], None) == ["created"]

    run(troubled, story, BatchSettings(queue_max=10, interval_ms=10_000))

    assert stored(troubled) == sorted(map(name, [*range(6), 99]))


def test_a_decision_during_the_flush_wins_and_leaves_no_directory(
    troubled: TroubledStorage,
) -> None:
    def rolled_back_meanwhile() -> None:
        decide(troubled, "rollback")
        delete_markers(troubled, INSTANT)

    troubled.before_append = rolled_back_meanwhile

    async def story(directory: MarkerDirectory) -> None:
        with pytest.raises(InstantRolledBack):
            await directory.create([name(1)], None)

    run(troubled, story)

    assert troubled.list_directories(".hoodie/.temp") == []


def test_a_decision_during_the_flush_takes_no_older_marker_from_the_rollback(
    troubled: TroubledStorage,
) -> None:
    async def story(directory: MarkerDirectory) -> None:
        await directory.create([name(1)], None)
        troubled.after_append = lambda: decide(troubled, "rollback")
        with pytest.raises(InstantRolledBack):
            await directory.create([name(2)], None)

    run(troubled, story, BatchSettings(num_threads=1))

    assert name(1) in stored(troubled)


def test_after_a_restart_memory_is_what_the_files_say(troubled: TroubledStorage) -> None:
    async def first_life(directory: MarkerDirectory) -> None:
        await directory.create([name(n) for n in range(50)], "r1")

    async def second_life(directory: MarkerDirectory) -> None:
        results = await directory.create([name(n) for n in range(45, 55)], "r2")
        assert results == ["exists"] * 4 + ["created"] * 6
        assert directory.marker_count == 55

    run(troubled, first_life)
    # A crash cut the last newline: that line was never acknowledged.
    path = f"{DIRECTORY}/MARKERS0"
    troubled.put(path, troubled.read(path)[:-1])
    run(troubled, second_life)

    assert stored(troubled) == sorted(map(name, range(55)))


def test_fewer_threads_after_a_restart_still_see_every_file(troubled: TroubledStorage) -> None:
    async def story(directory: MarkerDirectory) -> None:
        for number in range(20):
            await directory.create([name(number)], None)

    async def narrow(directory: MarkerDirectory) -> None:
        assert await directory.create([name(19)], None) == ["exists"]

    run(troubled, story, BatchSettings(num_threads=20))
    run(troubled, narrow, BatchSettings(num_threads=1))


def test_a_load_that_failed_is_tried_again(
    troubled: TroubledStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(directory: MarkerDirectory) -> None:
        monkeypatch.setattr(troubled, "list_tree", _failing)
        with pytest.raises(OSError, match="input/output"):
            await directory.create([name(1)], None)
        monkeypatch.undo()
        assert await directory.create([name(1)], None) == ["created"]

    run(troubled, story)


def _until(release: threading.Event) -> Callable[[], None]:
    def wait() -> None:
        assert release.wait(OUT_S)

    return wait


def _failing(directory: str) -> None:
    raise OSError(5, "input/output error", directory)
