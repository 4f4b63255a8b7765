"""A marker directory in memory: who is served without a task, when it is idle, how much it holds,
and that quick storage makes nobody wait for company."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.watched_storage import WatchedStorage
from tests.workers.markers.harness import INSTANT, decide
from tests.workers.markers.troubled import OUT_S, TroubledStorage, name, run, stored
from workers.errors import InstantRolledBack, LakehouseError
from workers.markers import delete_markers
from workers.markers.base import CreateResult
from workers.markers.batcher import BatchSettings, MarkerDirectory, MarkerServerBusy
from workers.markers.journal import read_journal
from workers.storage.base import FileInfo

Answers = list[CreateResult | LakehouseError]


def held(troubled: TroubledStorage) -> tuple[threading.Event, threading.Event]:
    """Appends wait: whether one has begun, and what lets all of them go on."""
    has_begun, release = threading.Event(), threading.Event()

    def wait() -> None:
        has_begun.set()
        assert release.wait(OUT_S)

    troubled.before_append = wait
    return has_begun, release


async def until(event: threading.Event) -> None:
    assert await asyncio.get_running_loop().run_in_executor(None, event.wait, OUT_S)


# ---- without a task


def test_one_name_is_served_without_a_task_once_the_directory_is_loaded(
    troubled: TroubledStorage,
) -> None:
    answers: Answers = []

    async def story(directory: MarkerDirectory) -> None:
        assert not directory.submit(name(1), "r1", answers.append)
        await directory.create([name(1)], "r1")
        assert directory.submit(name(2), "r2", answers.append)
        assert answers == []
        await directory.finish()
        assert answers == ["created"]
        for request in ("r2", "r3"):
            assert directory.submit(name(2), request, answers.append)
            await directory.finish()
        assert answers == ["created", "created", "exists"]

    run(troubled, story)

    assert stored(troubled) == sorted([name(1), name(2)])


def test_name_that_is_being_written_is_waited_for_by_a_task(troubled: TroubledStorage) -> None:
    async def story(directory: MarkerDirectory) -> None:
        await directory.create([name(1)], "r1")
        has_begun, release = held(troubled)
        writing = asyncio.create_task(directory.create([name(2)], "r2"))
        await until(has_begun)

        assert not directory.submit(name(2), "r3", lambda answer: pytest.fail(str(answer)))

        release.set()
        assert await writing == ["created"]

    run(troubled, story)


def test_who_is_served_without_a_task_is_told_what_went_wrong(troubled: TroubledStorage) -> None:
    answers: Answers = []

    async def story(directory: MarkerDirectory) -> None:
        await directory.create([name(1)], "r1")
        assert directory.submit(name(2), "r2", answers.append)
        assert directory.submit(name(3), "r3", answers.append)
        assert isinstance(answers.pop(), MarkerServerBusy)
        troubled.before_append = lambda: decide(troubled, "rollback")
        await directory.finish()
        [answer] = answers
        assert isinstance(answer, InstantRolledBack)

    run(troubled, story, BatchSettings(queue_max=2))


# ---- idle, and how much it holds


def is_idle(directory: MarkerDirectory) -> bool:
    """Asked anew each time."""
    return directory.is_idle


def test_directory_is_idle_while_nobody_asks_waits_or_writes(
    troubled: TroubledStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing, listed = threading.Event(), threading.Event()

    def slowly(directory: str) -> Sequence[FileInfo]:
        listing.set()
        assert listed.wait(OUT_S)
        monkeypatch.undo()
        return troubled.list_tree(directory)

    async def story(directory: MarkerDirectory) -> None:
        assert is_idle(directory)
        monkeypatch.setattr(troubled, "list_tree", slowly)
        loading = asyncio.create_task(directory.create([name(1)], None))
        await until(listing)
        assert not is_idle(directory)
        listed.set()
        await loading
        await directory.finish()
        assert is_idle(directory)

        has_begun, release = held(troubled)
        writing = asyncio.create_task(directory.create([name(2)], None))
        await until(has_begun)
        assert not is_idle(directory)
        release.set()
        await writing
        await directory.finish()
        assert is_idle(directory)

    run(troubled, story)


def test_directory_counts_what_waits_and_what_it_holds(troubled: TroubledStorage) -> None:
    async def story(directory: MarkerDirectory) -> None:
        assert (directory.queue_depth, directory.marker_count) == (0, 0)
        has_begun, release = held(troubled)
        first = asyncio.create_task(directory.create([name(1)], None))
        await until(has_begun)
        rest = asyncio.create_task(directory.create([name(2), name(3)], None))
        while directory.queue_depth == 0:
            await asyncio.sleep(0)
        assert (directory.queue_depth, directory.marker_count) == (2, 0)
        release.set()
        await asyncio.gather(first, rest)
        await directory.finish()
        assert (directory.queue_depth, directory.marker_count) == (0, 3)
        assert directory.counts_by_file == {0: 1, 1: 2}

    run(troubled, story, BatchSettings(interval_ms=10_000))


def test_directory_holds_no_more_than_it_may(troubled: TroubledStorage) -> None:
    async def story(directory: MarkerDirectory) -> None:
        assert await directory.create([name(1), name(2)], "r1") == ["created", "created"]
        with pytest.raises(MarkerServerBusy, match="too many"):
            await directory.create([name(3), name(4)], "r2")
        assert await directory.create([name(3)], "r3") == ["created"]

    run(troubled, story, BatchSettings(markers_max=3))


def test_marker_files_are_read_at_the_first_request_and_not_again(
    troubled: TroubledStorage,
) -> None:
    read: list[str] = []

    def note(call: str, path: str) -> None:
        if call == "read" and "/MARKERS" in path:
            read.append(path.rpartition("/")[2])

    async def write(directory: MarkerDirectory) -> None:
        await directory.create([name(1)], "r1")

    async def write_after_a_restart(directory: MarkerDirectory) -> None:
        assert read == []
        assert await directory.create([name(1)], "r2") == ["exists"]
        assert read == ["MARKERS0"]
        assert await directory.create([name(1)], "r3") == ["exists"]
        assert read == ["MARKERS0"]

    run(troubled, write)
    run(WatchedStorage(Path(troubled.location), before=note), write_after_a_restart)


def test_what_was_forgotten_is_read_again(troubled: TroubledStorage) -> None:
    async def story(directory: MarkerDirectory) -> None:
        await directory.create([name(1)], "r1")
        await directory.forget()
        assert (directory.marker_count, directory.counts_by_file) == (0, {})
        assert await directory.create([name(1)], "r1") == ["created"]
        await directory.forget()
        delete_markers(troubled, INSTANT)
        assert await directory.create([name(1)], "r2") == ["created"]

    run(troubled, story)

    assert read_journal(troubled, INSTANT).creators == {name(1): "r2"}


# ---- nobody waits for company


def test_behind_quick_flushes_who_asks_alone_does_not_wait_for_the_others(
    troubled: TroubledStorage,
) -> None:
    async def story(directory: MarkerDirectory) -> None:
        async with asyncio.timeout(OUT_S / 2):
            for turn in range(5):
                both = [directory.create([name(turn * 10 + n)], None) for n in range(2)]
                await asyncio.gather(*both)
                await directory.create([name(turn * 10 + 5)], None)

    run(troubled, story, BatchSettings(interval_ms=60_000))


def test_name_that_is_being_written_is_answered_behind_its_own_flush_alone(
    troubled: TroubledStorage,
) -> None:
    has_begun, release = held(troubled)

    async def story(directory: MarkerDirectory) -> None:
        first = asyncio.create_task(directory.create([name(1)], "r1"))
        await until(has_begun)
        again = asyncio.create_task(directory.create([name(1)], "r1"))
        for _ in range(20):
            await asyncio.sleep(0.005)
            assert not again.done(), "said to be created, and not durable yet"
        release.set()
        assert [*await first, *await again] == ["created", "created"]

    run(troubled, story, BatchSettings(interval_ms=1))


def test_queue_is_full_at_its_bound_and_not_before(troubled: TroubledStorage) -> None:
    async def story(directory: MarkerDirectory) -> None:
        await directory.create([name(0)], None)
        answers: Answers = []
        for number in (1, 2, 3):
            assert directory.submit(name(number), None, answers.append)
        assert [type(answer) for answer in answers] == [MarkerServerBusy]
        await directory.finish()
        assert answers[1:] == ["created", "created"]

    run(troubled, story, BatchSettings(queue_max=3))
