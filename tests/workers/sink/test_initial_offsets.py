"""Where a sink begins that has committed nothing: what a person chose holds for one topic, and what
the topic lost is counted.
"""

from __future__ import annotations

import pytest

from tests.support.crash_ports import StillClock
from tests.support.memory_storage import Files, MemoryStorage, RecordingStorage
from tests.workers.sink.sinks import (
    Facts,
    all_below,
    config_of,
    coordinates,
    coordinator,
    extra_of,
    ingest,
    report_of,
)
from workers.errors import OffsetExpired, OffsetsMissing, TopicReplaced
from workers.recovery.rollback import RollbackRequest, rollback
from workers.sink.config import SinkConfig, sink_config
from workers.sink.coordinator_events import Committed
from workers.sink.initial_offsets import resolve_initial_offsets
from workers.sink.ledger import SinkLedger
from workers.sink.reset import plan_reset, reset_offsets
from workers.sink.sink_paths import SinkPaths
from workers.table.table import Table

LATEST = config_of(start_offsets="latest")
CHOSEN = {"latest": LATEST, "an offset": config_of(start_offsets='{"0": 17}')}
CHOICES = pytest.mark.parametrize("config", CHOSEN.values(), ids=CHOSEN)
LENIENT = config_of(start_offsets="latest", on_expired="earliest")


def relaunched(table: Table, config: SinkConfig, facts: Facts) -> None:
    """Another process reads the topic to its end."""
    assert isinstance(ingest(coordinator(table, config), table, facts), Committed)


# A topic that is made anew before the first commit ------------------------------------------------


@CHOICES
def test_a_topic_that_is_made_anew_while_the_sink_is_away_is_read_from_its_start(
    table: Table, config: SinkConfig
) -> None:
    looks_and_dies(table, config, Facts({0: (0, 17)}))
    anew = Facts({0: (0, 200)}, "topic-2")

    relaunched(table, config, anew)

    assert coordinates(table) == all_below(anew)
    assert extra_of(table)["hoodie.sink.gaps"] == "0"


@CHOICES
def test_a_topic_that_is_made_anew_under_a_frozen_coordinator_is_read_from_its_start(
    table: Table, config: SinkConfig
) -> None:
    ledger = coordinator(table, config)
    assert ledger.begin(Facts({0: (0, 17)})) is None
    anew = Facts({0: (0, 200)}, "topic-2")

    ingest(ledger, table, anew)

    assert coordinates(table) == all_below(anew)


def test_a_topic_that_is_made_anew_twice_with_more_partitions_is_read_from_its_start(
    table: Table,
) -> None:
    for topic in (Facts({0: (0, 500)}), Facts({0: (0, 40)}, "topic-2")):
        looks_and_dies(table, LATEST, topic)
    anew = Facts({0: (0, 3), 1: (0, 2)}, "topic-3")

    relaunched(table, LATEST, anew)

    assert coordinates(table) == all_below(anew)


def test_a_topic_that_grows_after_it_was_made_anew_twice_unseen_is_read_from_its_start(
    table: Table,
) -> None:
    looks_and_dies(table, LATEST, Facts({0: (0, 500)}))
    anew = Facts({0: (0, 0)}, "topic-3")
    looks_and_dies(table, LATEST, anew)
    anew.produce(0, 600)

    relaunched(table, LATEST, anew)

    assert len(coordinates(table)) == 600


def test_a_transaction_of_the_topic_before_does_not_decide_where_the_next_one_begins(
    table: Table,
) -> None:
    """It began on new records, and was not committed."""
    before = Facts({0: (0, 5)})
    looks_and_dies(table, LATEST, before)
    before.produce(0, 3)
    ledger = coordinator(table, LATEST)
    begun = ledger.begin(before)
    assert begun is not None
    ledger.abort(begun, "the topic was deleted")
    anew = Facts({0: (0, 20)}, "topic-2")

    ingest(ledger, table, anew)

    assert coordinates(table) == all_below(anew)


@pytest.mark.parametrize("was_made_anew", [False, True], ids=["same topic", "made anew"])
def test_a_death_at_any_storage_call_of_a_look_leaves_one_after_which_nothing_is_passed_over(
    *, was_made_anew: bool
) -> None:
    config = sink_config({"hoodie.kafka.topic": "orders", "hoodie.kafka.start.offsets": "latest"})
    old, grown = Facts({0: (0, 9)}), Facts({0: (0, 12)})
    anew = Facts({0: (0, 200)}, "topic-2")
    before: Files = {}
    if was_made_anew:
        before = looked(before, config, old)[-1]
    states = looked(before, config, anew if was_made_anew else old)
    assert len(states) >= 2

    for files in states:
        storage = MemoryStorage(StillClock(), files)
        offsets = resolve_initial_offsets(storage, config, anew if was_made_anew else grown)
        never_looked = SinkPaths(config.sink_id).initial_offsets not in files
        assert offsets == ({} if was_made_anew else {0: 12 if never_looked else 9})


def looked(files: Files, config: SinkConfig, facts: Facts) -> list[Files]:
    """Every state that a death within the look can leave, and the last one."""
    storage = RecordingStorage(StillClock(), files)
    resolve_initial_offsets(storage, config, facts)
    return [files, *(left for left, _ in storage.left), storage.files]


def looks_and_dies(table: Table, config: SinkConfig, facts: Facts) -> None:
    """A coordinator looks at the topic, perhaps begins a transaction, and is gone."""
    coordinator(table, config).begin(facts)


# What holds until the first commit ----------------------------------------------------------------


def test_offsets_that_were_given_hold_until_a_launch_is_given_others(table: Table) -> None:
    facts = Facts({0: (0, 30)})
    looks_and_dies(table, config_of(start_offsets='{"0": 30}'), facts)
    facts.produce(0, 2)
    facts.produce(1, 2)  # A partition that was added since: all of it is new.

    begun = coordinator(table, config_of(start_offsets='{"0": 30}')).begin(facts)
    assert begun is not None
    assert dict(begun.offsets) == {0: 30, 1: 0}

    with pytest.raises(OffsetsMissing, match="names no offset of a partition"):
        coordinator(table, config_of(start_offsets='{"0": 25}')).begin(facts)
    begun = coordinator(table, config_of(start_offsets='{"0": 25, "1": 1}')).begin(facts)
    assert begun is not None
    assert dict(begun.offsets) == {0: 25, 1: 1}


def test_offsets_that_the_topic_does_not_have_are_refused_at_each_launch(table: Table) -> None:
    for _ in range(2):
        with pytest.raises(TopicReplaced, match="ends before"):
            coordinator(table, config_of(start_offsets='{"0": 31}')).begin(Facts({0: (0, 30)}))


def test_latest_after_a_restore_that_undid_every_commit_begins_where_it_first_looked(
    table: Table,
) -> None:
    facts = Facts({0: (0, 5)})
    ledger = coordinator(table, LATEST)
    assert ledger.begin(facts) is None
    facts.produce(0, 3)
    ingest(ledger, table, facts)
    assert ledger.begin(facts) is None

    undo_newest(ledger)

    ingest(ledger, table, facts)
    assert coordinates(table) == [(0, 5), (0, 6), (0, 7)]


def test_a_coordinator_whose_only_commit_was_rolled_back_reads_its_records_again(
    table: Table, facts: Facts
) -> None:
    ledger = coordinator(table, config_of(start_offsets="earliest"))
    ingest(ledger, table, facts)
    assert ledger.begin(facts) is None

    undo_newest(ledger)

    ingest(ledger, table, facts)
    assert coordinates(table) == all_below(facts)


def test_a_partition_whose_first_commit_was_rolled_back_is_read_from_its_start_again(
    table: Table,
) -> None:
    facts = Facts({0: (0, 5)})
    ledger = coordinator(table, config_of(start_offsets="earliest"))
    ingest(ledger, table, facts)
    facts.produce(1, 4)
    ingest(ledger, table, facts)
    assert ledger.begin(facts) is None

    undo_newest(ledger)

    ingest(ledger, table, facts)
    assert coordinates(table) == all_below(facts)


def undo_newest(ledger: SinkLedger) -> None:
    newest = ledger.table.timeline().list_completed_writes()[-1].requested_at
    rollback(ledger.table, RollbackRequest(newest, by="admin", reason="test"), ledger.options)


# What the topic lost ------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["", "earliest"])
def test_a_log_that_was_trimmed_before_the_first_run_shows_in_the_gaps(
    table: Table, start: str
) -> None:
    ledger = coordinator(table, config_of(start_offsets=start))
    begun = ledger.begin(Facts({0: (50, 200), 1: (0, 0)}))
    assert begun is not None

    ledger.commit(begun, [report_of(begun, 0, 200, gaps=2), report_of(begun, 1, 0)])

    extra = extra_of(table)
    assert (extra["hoodie.sink.gaps"], extra["hoodie.sink.lost.offsets"]) == ("52", "0=0-50")
    assert extra["hoodie.sink.start.offsets"] == "0=50,1=0"


def test_what_was_trimmed_is_counted_once_and_by_the_first_commit(table: Table) -> None:
    facts = Facts({0: (50, 60)})
    ledger = coordinator(table, config_of(start_offsets="earliest"))
    begun = ledger.begin(facts)
    assert begun is not None
    ledger.abort(begun, "test")
    ingest(ledger, table, facts)
    assert extra_of(table)["hoodie.sink.gaps"] == "50"

    facts.produce(0, 2)
    ingest(ledger, table, facts)

    assert extra_of(table)["hoodie.sink.gaps"] == "0"


def test_a_topic_made_anew_and_trimmed_before_the_relaunch_shows_in_the_gaps(table: Table) -> None:
    looks_and_dies(table, LATEST, Facts({0: (0, 5)}))

    relaunched(table, LATEST, Facts({0: (30, 200), 1: (0, 1)}, "topic-2"))

    assert extra_of(table)["hoodie.sink.gaps"] == "30"
    assert len(coordinates(table)) == 171


def test_a_partition_that_was_added_and_trimmed_shows_in_the_gaps(table: Table) -> None:
    relaunched(table, config_of(), Facts({0: (0, 5)}))

    relaunched(table, config_of(), Facts({0: (0, 6), 1: (4, 9)}))

    assert extra_of(table)["hoodie.sink.gaps"] == "4"
    assert extra_of(table)["hoodie.sink.lost.offsets"] == "1=0-4"


def test_a_log_trimmed_between_the_first_look_and_the_first_commit_stops_or_is_counted(
    table: Table,
) -> None:
    looks_and_dies(table, LATEST, Facts({0: (0, 5)}))
    trimmed = Facts({0: (7, 9)})
    with pytest.raises(OffsetExpired, match=r"next=5 first=7 lost=2"):
        coordinator(table, LATEST).begin(trimmed)

    relaunched(table, LENIENT, trimmed)

    extra = extra_of(table)
    assert (extra["hoodie.sink.gaps"], extra["hoodie.sink.lost.offsets"]) == ("2", "0=5-7")


def test_a_log_trimmed_between_a_look_of_earliest_and_the_first_commit_shows_in_the_gaps(
    table: Table,
) -> None:
    earliest = config_of(start_offsets="earliest")
    ledger = coordinator(table, earliest)
    begun = ledger.begin(Facts({0: (0, 200)}))
    assert begun is not None
    ledger.abort(begun, "the records were gone before they were read")
    trimmed = Facts({0: (50, 200)})
    with pytest.raises(OffsetExpired, match=r"next=0 first=50 lost=50"):
        ledger.begin(trimmed)

    relaunched(table, earliest, trimmed)

    assert extra_of(table)["hoodie.sink.gaps"] == "50"
    assert len(coordinates(table)) == 150


def test_latest_passes_over_what_was_there_and_counts_none_of_it(table: Table) -> None:
    facts = Facts({0: (3, 5)})
    looks_and_dies(table, LATEST, facts)
    facts.produce(0, 1)

    relaunched(table, LATEST, facts)

    assert extra_of(table)["hoodie.sink.gaps"] == "0"


def test_a_reset_counts_what_the_topic_lost(table: Table) -> None:
    relaunched(table, config_of(), Facts({0: (0, 5)}))
    for facts, lost in [
        (Facts({0: (8, 9)}), "0=5-8"),
        (Facts({0: (2, 9)}, "topic-2"), "0=0-2"),
    ]:
        plan = plan_reset(table, config_of(), facts, "earliest")
        reset_offsets(table, config_of(), plan, by="ann")
        assert extra_of(table)["hoodie.sink.lost.offsets"] == lost
