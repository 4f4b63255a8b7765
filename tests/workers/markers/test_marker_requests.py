"""A repeated request is answered as the first time, over any death of the server (MK3, D3)."""

from __future__ import annotations

import pytest

from tests.workers.markers.harness import INSTANT, decide
from tests.workers.markers.troubled import TroubledStorage, name, run, stored
from workers.errors import InstantRolledBack, MarkerRefused
from workers.markers import delete_markers, markers_directory
from workers.markers.batcher import BatchSettings, MarkerDirectory
from workers.storage.local import LocalStorage

DIRECTORY = markers_directory(INSTANT)


def server_answers(
    storage: LocalStorage, *requests: tuple[str | None, list[int]]
) -> list[list[str]]:
    """What a server that starts now answers to one request after the other: (id, numbers)."""
    answers: list[list[str]] = []

    async def story(directory: MarkerDirectory) -> None:
        for request_id, numbers in requests:
            answers.append(list(await directory.create([name(n) for n in numbers], request_id)))

    run(storage, story)
    return answers


def refused(storage: LocalStorage, request_id: str, number: int) -> None:
    async def story(directory: MarkerDirectory) -> None:
        with pytest.raises(MarkerRefused):
            await directory.create([name(number)], request_id)

    run(storage, story)


def test_first_answer_is_given_again_after_a_restart(troubled: TroubledStorage) -> None:
    first = server_answers(troubled, ("r1", [1, 2]), ("r2", [2, 3]), (None, [4]))

    again = server_answers(troubled, ("r2", [2, 3]), ("r1", [1, 2]), (None, [4]), ("r4", [4, 3, 1]))

    assert first == [["created", "created"], ["exists", "created"], ["created"]]
    assert again == [
        ["exists", "created"],
        ["created", "created"],
        ["exists"],
        ["exists", "exists", "exists"],
    ]
    assert stored(troubled) == sorted(map(name, [1, 2, 3, 4]))
    assert len(troubled.appends) == 3


@pytest.mark.parametrize("kept", [0, 1, 3, 20, -1])
def test_a_marker_that_nobody_was_told_of_is_created_by_whoever_asks_first(
    troubled: TroubledStorage, kept: int
) -> None:
    server_answers(troubled, ("r0", [0]), ("r1", [1]))
    # A crash kept the marker and lost the line of who asked, or left half of it.
    path = f"{DIRECTORY}/REQUESTS1"
    troubled.put(path, troubled.read(path)[:kept])

    answers = server_answers(troubled, ("r2", [1]), ("r1", [1]))
    again = server_answers(troubled, ("r1", [1]), ("r2", [1]))

    assert answers == [["created"], ["exists"]]
    assert again == [["exists"], ["created"]]
    assert stored(troubled) == [name(0), name(1)]


@pytest.mark.parametrize("kept", [0, 1, len(name(1)) - 1])
def test_a_request_that_was_kept_without_its_marker_creates_it_again(
    troubled: TroubledStorage, kept: int
) -> None:
    server_answers(troubled, ("r1", [1]))
    troubled.put(f"{DIRECTORY}/MARKERS0", troubled.read(f"{DIRECTORY}/MARKERS0")[:kept])

    assert server_answers(troubled, ("r2", [1]), ("r1", [1])) == [["created"], ["exists"]]
    assert server_answers(troubled, ("r1", [1]), ("r2", [1])) == [["exists"], ["created"]]
    assert stored(troubled) == [name(1)]


def test_a_name_that_only_lacked_its_newline_keeps_its_creator(troubled: TroubledStorage) -> None:
    server_answers(troubled, ("r1", [1]))
    troubled.put(f"{DIRECTORY}/MARKERS0", troubled.read(f"{DIRECTORY}/MARKERS0")[:-1])

    assert server_answers(troubled, ("r2", [2]), ("r3", [1]), ("r1", [1])) == [
        ["created"],
        ["exists"],
        ["created"],
    ]


def test_who_was_answered_after_a_failed_flush_stays_the_creator(
    troubled: TroubledStorage,
) -> None:
    async def story(directory: MarkerDirectory) -> None:
        troubled.torn_to = 0
        with pytest.raises(MarkerRefused):
            await directory.create([name(1)], "r1")
        troubled.torn_to = None
        assert await directory.create([name(1)], "r2") == ["created"]

    run(troubled, story)

    assert server_answers(troubled, ("r1", [1]), ("r2", [1])) == [["exists"], ["created"]]


@pytest.mark.parametrize("torn_to", [0, 3, 12])
def test_a_marker_whose_request_could_not_be_kept_is_not_acknowledged(
    troubled: TroubledStorage, torn_to: int
) -> None:
    server_answers(troubled, ("r0", [0]))
    troubled.record_torn_to = torn_to
    refused(troubled, "r1", 1)
    troubled.record_torn_to = None

    answers = server_answers(
        troubled, ("r2", [2]), ("r1", [1]), *((f"m{n}", [n]) for n in range(10, 40))
    )

    assert answers[:2] == [["created"], ["created"]]
    assert server_answers(troubled, ("r1", [1]), ("r2", [2]), ("r0", [0])) == [["created"]] * 3


def test_what_another_server_left_exists_before_and_after_a_restart(
    troubled: TroubledStorage,
) -> None:
    troubled.put(f"{DIRECTORY}/MARKERS.type", b"TIMELINE_SERVER_BASED")
    troubled.put(f"{DIRECTORY}/MARKERS3", f"{name(1)}\n".encode())

    assert server_answers(troubled, ("r1", [1]), ("r2", [2])) == [["exists"], ["created"]]
    assert server_answers(troubled, ("r3", [1]), ("r2", [2])) == [["exists"], ["created"]]


def test_a_direct_marker_belongs_to_who_wrote_it(troubled: TroubledStorage) -> None:
    server_answers(troubled, ("r2", [2]))
    troubled.put(f"{DIRECTORY}/{name(1)}", b"")

    assert server_answers(troubled, ("r1", [1])) == [["exists"]]


def test_after_the_directory_went_nobody_is_remembered(troubled: TroubledStorage) -> None:
    server_answers(troubled, ("r1", [1]))
    delete_markers(troubled, INSTANT)

    assert server_answers(troubled, ("r2", [1]), ("r1", [1])) == [["created"], ["exists"]]


def test_bytes_that_are_no_line_of_ours_are_passed_over(troubled: TroubledStorage) -> None:
    server_answers(troubled, ("r1", [1]))
    troubled.append(
        f"{DIRECTORY}/REQUESTS0", b"\xff\xfe\t\n\n\t\t\nx\tr9\t" + name(1).encode() + b"\n"
    )

    assert server_answers(troubled, ("r9", [1]), ("r1", [1])) == [["exists"], ["created"]]


def test_claims_survive_a_flush_that_failed(troubled: TroubledStorage) -> None:
    server_answers(troubled, ("r0", [0]), ("r1", [1]))
    troubled.delete(f"{DIRECTORY}/REQUESTS1")

    async def story(directory: MarkerDirectory) -> None:
        troubled.record_torn_to = 0
        with pytest.raises(MarkerRefused):
            await directory.create([name(1)], "r2")
        troubled.record_torn_to = None
        assert directory.marker_count == 2
        assert await directory.create([name(1)], "r3") == ["created"]
        assert await directory.create([name(1)], "r2") == ["exists"]

    run(troubled, story, BatchSettings(num_threads=1))

    assert stored(troubled) == [name(0), name(1)]


def test_a_decision_after_the_markers_went_leaves_nothing_of_who_claims_them(
    troubled: TroubledStorage,
) -> None:
    server_answers(troubled, ("r0", [0]), ("r1", [1]))
    troubled.delete(f"{DIRECTORY}/REQUESTS1")

    def rolled_back_meanwhile() -> None:
        decide(troubled, "rollback")
        delete_markers(troubled, INSTANT)

    troubled.before_record = rolled_back_meanwhile

    async def story(directory: MarkerDirectory) -> None:
        with pytest.raises(InstantRolledBack):
            await directory.create([name(1)], "r2")

    run(troubled, story)

    assert troubled.list_directories(".hoodie/.temp") == []
