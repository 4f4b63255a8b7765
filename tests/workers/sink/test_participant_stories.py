"""What the participant's state machine must never do again: the stories behind its table."""

from __future__ import annotations

from collections.abc import Iterable

from tests.workers.sink.participants import (
    EVENTS,
    ME,
    OTHER,
    TO_STATE,
    ack,
    after,
    batch,
    effect_text,
    end,
    start,
)
from workers.sink.messages import (
    AckCommit,
    MessageReceived,
    Report,
    Send,
    StartCommit,
)
from workers.sink.participant_events import (
    Assigned,
    Closed,
    NeedsSchema,
    ParticipantEffect,
    ParticipantEvent,
    Polled,
    Seek,
    StoreOffset,
    Write,
    WriteFailed,
)


def reported(effects: Iterable[ParticipantEffect]) -> Report:
    [report] = [
        one.message for one in effects if isinstance(one, Send) and isinstance(one.message, Report)
    ]
    return report


def test_gaps_of_the_broker_are_counted_and_never_sought_back() -> None:
    """K8: transaction markers, compaction and an expired head; Hudi seeks back for ever."""
    batches = [batch(13, 15), Polled(17, 20, 2, 1), batch(None, 22), batch(22, 23)]

    _, effects = after([Assigned(0), start("t1"), *batches, end("t1"), Closed("t1", 5)])

    report = reported(effects)
    assert (report.start, report.end, report.records, report.gaps) == (10, 23, 5, 3 + 2 + 1 + 2)


def test_records_below_the_start_are_dropped() -> None:
    state, effects = after([Assigned(0), start("t1"), batch(8, 14)])

    assert effects == [Write(10)]
    assert (state.offset, state.gaps) == (14, 0)


def test_a_batch_that_brings_nothing_new_is_not_written() -> None:
    state, effects = after([Assigned(0), start("t1"), batch(10, 20), batch(12, 18)])

    assert effects == []
    assert state.offset == 20


def test_batches_on_their_way_when_the_transaction_ended_are_read_again() -> None:
    """What END overtook belongs to nobody: the next START must not begin behind it."""
    events = [*TO_STATE["CLOSING"], batch(20, 25), EVENTS["closed t1"], ack("t1")]

    _, effects = after([*events, start("t2", 20)])

    assert Seek(20, 2) in effects


def test_a_batch_still_being_decoded_when_the_next_transaction_starts_is_taken_without_a_seek() -> (
    None
):
    """The consumer stood still at 20 when END came, as far as anybody knew; it had read on."""
    events = [*TO_STATE["PREPARED"], ack("t1"), start("t2", 20)]

    state, effects = after([*events, batch(20, 25)])

    assert (effects, state.offset, state.seeks) == ([Write(20)], 25, 1)


def test_a_batch_that_could_not_be_decoded_is_read_again() -> None:
    """The consumer has left it behind, and the machine was never told where it ended."""
    for failed in (WriteFailed("t1", "bad"), NeedsSchema("t1", "f")):
        _, effects = after([Assigned(0), start("t1"), failed, start("t2", 10)])

        assert Seek(10, 2) in effects


def test_batches_from_before_a_seek_count_for_nothing() -> None:
    events = [*TO_STATE["OPEN"], start("t2", 15)]

    state, effects = after([*events, batch(20, 30, seeks=1)])

    assert (effects, state.offset) == ([], 15)


def test_a_delayed_start_of_a_transaction_that_is_over_opens_no_writer() -> None:
    """Files written now would lie under a committed instant: every reader would take them."""
    state, effects = after([*TO_STATE["PREPARED"], ack("t1"), start("t1")])

    assert (state.name, [effect_text(one) for one in effects]) == ("IDLE", ["ready(t1 20 e2)"])


def test_of_two_participants_of_a_partition_only_the_named_one_writes() -> None:
    state, effects = after([Assigned(0), start("t1", member=OTHER)])

    assert (state.name, [effect_text(one) for one in effects]) == ("IDLE", ["ready(- 0 e2)"])


def test_a_lost_report_is_sent_again_with_each_start_or_end() -> None:
    """Also a failed one: otherwise everybody would wait for the timeout."""
    failed: list[ParticipantEvent] = [Assigned(0), start("t1"), WriteFailed("t1", "full")]

    for again in (start("t1"), end("t1")):
        assert reported(after([*failed, again])[1]).reason == "full"


def test_a_late_end_of_the_writer_belongs_to_its_own_transaction() -> None:
    """The writer of t1 closed, or failed, just when START t2 came."""
    for late in (Closed("t1", 10, ("file",)), WriteFailed("t1", "full"), NeedsSchema("t1", "f")):
        state, effects = after([*TO_STATE["CLOSING"], start("t2", 20), late])

        assert (state.name, effects) == ("OPEN", [])


def test_an_acknowledgement_without_our_partition_leaves_our_offset() -> None:
    """It is what we reported: 0 would be a seek to the beginning of the topic."""
    message = AckCommit(2, "t1", "c", {0: 5}, "")

    state, effects = after([*TO_STATE["PREPARED"], MessageReceived(message, 0)])

    assert state.offset == 20
    assert StoreOffset(20) in effects


def test_a_start_without_our_partition_is_not_ours() -> None:
    message = StartCommit(2, "t1", "c", {0: 0}, {0: "p0", 1: ME}, "{}", "")

    state, _ = after([Assigned(0), MessageReceived(message, 0)])

    assert state.name == "IDLE"
