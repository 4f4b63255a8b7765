"""Did a write, a replay of dead letters or a sink do what it said? Asked of storage: the timeline,
the files, what the sink keeps beside the table. Never of the worker, nor of the mirror.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from controlplane.errors import ControlPlaneError
from controlplane.mirror.storage import engine_table
from controlplane.operations.checks import Check
from controlplane.operations.models import Operation
from controlplane.operations.own_instants import OwnInstant, own_instant
from controlplane.operations.replayed_rows import are_keys_known, replayed_rows
from controlplane.operations.rounds import has_all_rounds
from controlplane.operations.states import OperationState
from controlplane.operations.table_service_effects import written_gaps
from controlplane.operations.written_sample import written_sample
from workers.errors import LakehouseError
from workers.sink.offsets import SinkCommit
from workers.sink.replays import Replay, find_claims, read_replays
from workers.sink.sink_commits import SinkCommits
from workers.sink.state_file import SinkState, read_state
from workers.table.table import Table
from workers.timeline.instant import Action
from workers.timeline.metadata import ROWS_KEY
from workers.timeline.timeline import Timeline

_WRITES = (Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT)
_NAMED_MAX = 3
_Verdicts = Mapping[str, tuple[bool | None, str]]


@dataclass(frozen=True, slots=True)
class _Seen:
    operation: Operation
    table: Table
    timeline: Timeline

    @property
    def has_succeeded(self) -> bool:
        return self.operation.state == OperationState.SUCCEEDED.value


WRITE_TITLES = {
    "timeline": "Done on the timeline",
    "files": "Files exist",
    "rows": "Row counts match",
}
REPLAY_TITLES = {
    "letters": "Letters are marked as sent",
    "read": "The sink has read over them",
    "rows": "The table has taken them in",
}
SINK_TITLES = {
    "offsets": "The table has what it reported",
    "commits": "Its commits are on the timeline",
}
"""Check -> title."""


def write_checks(operation: Operation) -> list[Check]:
    """Storage alone. Every check is open when storage does not answer."""
    return _checks(operation, WRITE_TITLES, _write)


def replay_checks(operation: Operation) -> list[Check]:
    """As of a write."""
    return _checks(operation, REPLAY_TITLES, _replay)


def sink_checks(operation: Operation) -> list[Check]:
    """As of a write."""
    return _checks(operation, SINK_TITLES, _sink)


def _checks(
    operation: Operation, titles: Mapping[str, str], look: Callable[[_Seen], _Verdicts]
) -> list[Check]:
    try:
        table = engine_table(operation.table)
        verdicts = look(_Seen(operation, table, table.timeline()))
    except (LakehouseError, ControlPlaneError, OSError):
        no_answer = "storage did not answer; this page asks again"
        verdicts = dict.fromkeys(titles, (None, no_answer))
    return [Check(name, titles[name], *verdict) for name, verdict in verdicts.items()]


def _write(seen: _Seen) -> _Verdicts:
    """Of a write of many commits, of the newest."""
    own = own_instant(seen.table, seen.timeline, seen.operation, _WRITES)
    if own is None:
        return {"timeline": _nothing_written(seen)}
    at = own.instant.requested_at
    rows = own.commit.extra_metadata.get(ROWS_KEY, "")
    carries = f" with {int(rows):,} row{'' if rows == '1' else 's'}" if rows.isdigit() else ""
    gaps = written_gaps(seen.table, seen.timeline, own)
    verdicts: dict[str, tuple[bool | None, str]] = {
        "timeline": (True, f"{at} is completed{carries} and carries this operation's name"),
        "files": (not gaps, _gap_words(gaps) or _whole(seen.table, own)),
    }
    if rows_read := _rows_read(seen.table, own):
        verdicts["rows"] = rows_read
    return verdicts


def _whole(table: Table, own: OwnInstant) -> str:
    """What was not missed may have been taken by those who may."""
    if own.is_archived:
        return "it is archived; which of its files services have replaced since is not known"
    paths = [stat.path for stat in own.commit.stats]
    taken = sum(info is None for info in table.storage.at_once(table.storage.info, paths))
    if not taken:
        return f"storage shows its {len(paths):,} files as the commit names them"
    stand = "none is left" if taken == len(paths) else "the others stand as the commit names them"
    return f"of its {len(paths):,} files later services have taken {taken:,}; {stand}"


def _rows_read(table: Table, own: OwnInstant) -> tuple[bool, str] | None:
    """None where nothing is left to read, or each file is too large for a page."""
    sample = written_sample(table, own)
    if sample.gaps:
        return False, _gap_words(sample.gaps)
    count = len(own.commit.stats)
    if not count:
        return True, "it wrote no file, and none is to be read"
    if not sample.files:
        return None
    files = "its file" if count == 1 else f"{sample.files:,} of its {count:,} files"
    hold = "holds" if count == 1 else "hold"
    rows = f"{sample.rows:,} row{'' if sample.rows == 1 else 's'}"
    return True, f"{files}, read to the last row, {hold} the {rows} that the commit states"


def _nothing_written(seen: _Seen) -> tuple[bool | None, str]:
    at = seen.operation.instant
    left_instant = seen.timeline.find(at) if at else None
    if seen.has_succeeded:
        if has_all_rounds(seen.operation, seen.table, seen.timeline):
            return True, "it wrote nothing: the table had all rounds of its source"
        return False, "the timeline in storage has no completed instant of it"
    if left_instant is not None and not left_instant.is_completed:
        return False, f"{at} still stands on the timeline, pending"
    left = f"nothing of {at} is on the timeline" if at else "it put nothing on the timeline"
    return True, f"it did not succeed, and {left}"


def _replay(seen: _Seen) -> _Verdicts:
    sink_id, token = seen.operation.sink_id, str(seen.operation.pk)
    replays = find_claims(read_replays(seen.table.storage, sink_id), token)
    letters = [letter for one in replays for letter in one.letters]
    is_sent = bool(replays) and all(one.is_sent for one in replays)
    words = "no letter is marked as sent by this operation"
    if replays:
        words = f"{len(letters):,} letters are {'marked as sent' if is_sent else 'claimed only'}"
    table_offsets = SinkCommits(seen.table, sink_id).load_newest(seen.timeline)
    verdicts = {
        "letters": (is_sent, words),
        "read": _read_over(replays, table_offsets, is_sent=is_sent),
    }
    if not are_keys_known(seen.table):
        return verdicts  # Under which keys is the sink's to decode.
    return {**verdicts, "rows": _taken_in(seen, replays, is_read=verdicts["read"][0])}


def _taken_in(
    seen: _Seen, replays: Sequence[Replay], *, is_read: bool | None
) -> tuple[bool | None, str]:
    """Each of them, under its key."""
    if not is_read:
        return is_read, "follows from the check above"
    if any(replay.landed is None for replay in replays):
        return None, "nobody wrote down at which offsets they were sent, so no key is known"
    directory = seen.operation.parameters["job"]["directory"]
    taken_in = replayed_rows(seen.table, seen.operation.sink_id, directory, replays)
    if taken_in.missing:
        return False, _gap_words(taken_in.missing)
    counts = [f"rows under their keys: {taken_in.rows:,}"]
    counts += [f"letters once more: {taken_in.letters:,}"] if taken_in.letters else []
    counts += [f"not looked up for this page: {taken_in.unread:,}"] if taken_in.unread else []
    is_any = taken_in.rows + taken_in.letters > 0
    return (True if is_any else None), ", ".join(counts)


def _read_over(
    replays: Sequence[Replay], table_offsets: SinkCommit, *, is_sent: bool
) -> tuple[bool | None, str]:
    """Each letter was sent to its own partition. Once the table has read on to where that ended
    then, it has each of them.
    """
    if not is_sent:
        return False, "follows from the check above"
    if any(not replay.until for replay in replays):
        return None, "nobody saw how far the topic reached when they were sent"
    behind = [
        f"partition {one} is read up to {table_offsets.offsets.get(one, 0):,} of {reached:,}"
        for replay in replays
        for one, reached in sorted(replay.until)
        if any(letter.partition == one for letter in replay.letters)
        and table_offsets.offsets.get(one, 0) < reached
    ]
    if behind:
        return None, f"the sink has not brought them yet: {'; '.join(behind[:_NAMED_MAX])}"
    return True, f"commit {table_offsets.instant} has read each partition on over them"


def _sink(seen: _Seen) -> _Verdicts:
    state = read_state(seen.table.storage, seen.operation.sink_id)
    if state is None:
        ended = "it left no word beside the table"
        return {"offsets": (None if not seen.operation.finished_at else False, ended)}
    table_offsets = SinkCommits(seen.table, seen.operation.sink_id).load_newest(seen.timeline)
    return {"offsets": _offsets(state, table_offsets), "commits": _commits(seen, state)}


def _offsets(state: SinkState, table_offsets: SinkCommit) -> tuple[bool | None, str]:
    """A coordinator of a later epoch may have been told to begin elsewhere."""
    if table_offsets.epoch > state.epoch:
        return (
            True,
            f"a later coordinator, of epoch {table_offsets.epoch}, has committed since",
        )
    reported_offsets = {one.partition: one.table_offset for one in state.participants}
    short = [
        f"partition {one} is at {table_offsets.offsets.get(one, 0):,}, and it reported {offset:,}"
        for one, offset in sorted(reported_offsets.items())
        if offset is not None and table_offsets.offsets.get(one, 0) < offset
    ]
    if short:
        return False, "; ".join(short[:_NAMED_MAX])
    at = f"commit {table_offsets.instant}" if table_offsets.instant else "the table"
    return True, f"{at} has at least what it reported, in all {len(reported_offsets):,} partitions"


def _commits(seen: _Seen, state: SinkState) -> tuple[bool | None, str]:
    commits = [one.instant for one in state.transactions if one.outcome == "committed"]
    active = {one.requested_at for one in seen.timeline.iterate_completed()}
    missing = [one for one in commits if one not in active]
    if missing:
        archived = {one.requested_at for one in seen.table.list_archived_times()}
        missing = [one for one in missing if one not in archived]
    if missing:
        return False, _gap_words([f"{one} is on no timeline" for one in missing])
    return (
        True,
        f"all {len(commits):,} of its last transactions that it calls committed are completed",
    )


def _gap_words(gaps: Sequence[str]) -> str:
    if not gaps:
        return ""
    return f"{len(gaps):,} gap{'' if len(gaps) == 1 else 's'}, such as: {gaps[0]}"
