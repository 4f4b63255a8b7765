"""The offsets of a sink: Hudi's text, and which commits may stand (KS2, KS3, KS4)."""

from __future__ import annotations

import random

import pytest

from workers.errors import MalformedTable
from workers.sink.offsets import (
    Attempt,
    SinkCommit,
    Stale,
    StaleCause,
    check_commit,
    format_offsets,
    merge_offsets,
    parse_offsets,
)

# What stands, at which epoch; what the attempt began from, where it read, at which epoch -> verdict
COMMITS = """
stands     epoch  bases      starts     ends       by  verdict
-          0      -          0=0        0=7        1   0=7
-          0      -          0=4,1=9    0=7,1=9    1   0=7,1=9
0=7        1      0=7        0=7        0=9        1   0=9
0=7        1      0=7        0=7        0=7        2   0=7
0=7,1=3    1      0=7        0=7        0=9        1   0=9,1=3
0=7        1      0=7        0=7,1=0    0=9,1=2    1   0=9,1=2
0=7        1      0=7        0=20       0=25       1   0=25
0=7        2      0=7        0=7        0=9        1   epoch
0=9        1      0=7        0=7        0=9        1   offsets
0=9        1      0=7        0=9        0=12       1   offsets
0=5        1      0=7        0=7        0=9        2   offsets
0=7        1      -          0=7        0=9        1   offsets
-          0      0=7        0=7        0=9        1   offsets
0=7,1=3    1      0=7        0=7,1=0    0=9,1=2    1   offsets
0=0        1      -          0=0        0=9        1   offsets
-          0      0=0        0=0        0=9        1   offsets
0=7        1      0=7,1=0    0=7,1=0    0=9,1=2    1   offsets
0=9,1=3    1      0=9,1=2    0=9,1=2    0=9,1=4    1   offsets
"""


@pytest.mark.parametrize("row", COMMITS.strip().splitlines()[1:], ids=str.strip)
def test_a_commit_stands_only_on_the_offsets_it_began_from(row: str) -> None:
    stands, epoch, bases, starts, ends, by, verdict = _cells(row)
    last_commit = SinkCommit(parse_offsets(stands), int(epoch), "20260101000000000", "t", "id")
    attempt = Attempt(int(by), "t", "id", *map(parse_offsets, (bases, starts, ends)))

    refusal = check_commit(last_commit, attempt)

    if refusal is None:
        assert format_offsets(merge_offsets(last_commit, attempt)) == verdict
    else:
        assert refusal.cause == verdict


def _cells(row: str) -> list[str]:
    return ["" if cell == "-" else cell for cell in row.split()]


def test_a_table_without_a_commit_of_the_sink_stands_before_the_first_epoch() -> None:
    nothing = SinkCommit()

    first = check_commit(nothing, Attempt(0, "t", "id", {}, {0: 0}, {0: 7}))

    assert (nothing.epoch, first) == (0, None)


@pytest.mark.parametrize(("topic", "topic_id"), [("t", "again"), ("other", "id")])
def test_offsets_of_another_topic_are_no_ground_to_stand_on(topic: str, topic_id: str) -> None:
    last_commit = SinkCommit({0: 7}, 1, "20260101000000000", "t", "id")

    refusal = check_commit(last_commit, Attempt(1, topic, topic_id, {0: 7}, {0: 7}, {0: 9}))

    assert refusal == Stale(
        StaleCause.TOPIC, f"topic {topic} with id {topic_id} is not topic t with id id"
    )


def test_a_refusal_says_what_moved() -> None:
    last_commit = SinkCommit({0: 9, 1: 3}, 1, "20260101000000000", "t", "id")
    attempt = Attempt(1, "t", "id", {0: 7}, {0: 7, 1: 0}, {0: 9, 1: 3})

    refusal = check_commit(last_commit, attempt)

    assert refusal is not None
    assert refusal.reason == "began from 0=7, 1=nothing, but now stands 0=9, 1=3"


@pytest.mark.parametrize(
    "attempt",
    [
        ({}, {0: 5}, {}),
        ({0: 6}, {0: 5}, {0: 7}),
        ({0: 5}, {0: 5}, {0: 4}),
        ({1: 5}, {0: 5}, {0: 6}),
    ],
    ids=["no end", "start below base", "end below start", "base without start"],
)
def test_an_attempt_that_goes_back_cannot_be_made(attempt: tuple[dict[int, int], ...]) -> None:
    with pytest.raises(AssertionError):
        Attempt(1, "t", "id", *attempt)


def test_of_any_number_of_rivals_each_offset_is_committed_by_one() -> None:
    """Random coordinators begin and commit in any order; whatever they commit must line up."""
    rng = random.Random(7)
    for _ in range(300):
        last_commit, pending, written = SinkCommit(), [], {0: 0, 1: 0, 2: 0}
        for _ in range(40):
            if rng.random() < 0.5:
                pending.append((last_commit, rng.sample(range(3), rng.randint(1, 3))))
                continue
            if not pending:
                continue
            seen, read = pending.pop(rng.randrange(len(pending)))
            bases = {one: seen.offsets[one] for one in read if one in seen.offsets}
            starts = {one: bases.get(one, 0) for one in read}
            ends = {one: start + rng.randint(0, 3) for one, start in starts.items()}
            attempt = Attempt(rng.randint(1, 3), "t", "id", bases, starts, ends)
            if check_commit(last_commit, attempt) is None:
                assert all(written[one] == starts[one] for one in read)
                written.update(ends)
                last_commit = SinkCommit(
                    merge_offsets(last_commit, attempt), attempt.epoch, "x", "t", "id"
                )
                assert all(written[one] == end for one, end in last_commit.offsets.items())


def test_the_text_is_hudis_and_comes_back() -> None:
    offsets = {10: 2**63 - 1, 0: 12, 2: 0}

    assert format_offsets(offsets) == "0=12,2=0,10=9223372036854775807"
    assert parse_offsets(format_offsets(offsets)) == offsets
    assert parse_offsets("") == {}


@pytest.mark.parametrize(
    "text", ["0", "0=", "=1", "0=1,", "0=-1", "0=1;1=2", "0=1, 1=2", "00=1", "0=1,0=1", "0=0x1"]
)
def test_damaged_offsets_are_refused(text: str) -> None:
    with pytest.raises(MalformedTable, match="offsets of a sink are damaged"):
        parse_offsets(text)
