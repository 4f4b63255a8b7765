"""Dead letters that a replay would send: of which sink, from where, and which went already. Changes
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from controlplane.errors import InvalidRequest, NotAllowedNow, StorageUnavailable
from controlplane.fields import INSTANT_TIME
from controlplane.mirror.sink_letters import letter_files
from controlplane.mirror.storage import engine_table, storage_of
from controlplane.operations.brokers import check_brokers
from controlplane.operations.request_places import checked_place_beside
from controlplane.operations.sink_stops import newest_operation, own_options
from controlplane.tables.models import Table
from workers.clock import InstantTime
from workers.errors import InvalidInput, LakehouseError, StorageFailed
from workers.installation import format_command
from workers.sink.config import sink_config
from workers.sink.dead_letter_selection import parse_selection
from workers.sink.dead_letters import list_dead_letter_files
from workers.sink.replays import Replay, find_sent_letters, read_replays
from workers.sink.sink_commits import ID_KEY
from workers.storage.source_places import LETTERS_SUFFIX

CAUSES_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """What a replay would send, now."""

    instant: InstantTime
    letters: list[str]
    cause: str
    topic: str
    directory: str
    to_send: int
    already: int
    """Chosen, and in the topic again already."""
    last_sent_by: str
    last_sent_at: datetime | None
    causes: list[str]
    """Of those that would be sent, the first."""
    is_partial: bool
    """Then older commits than were counted here left more of them out, and those go too."""

    plan_hash: ClassVar[str] = ""
    """Letters are claimed one by one before they are sent, so no plan can grow old."""
    blockers: ClassVar[Sequence[str]] = ()

    @property
    def is_empty(self) -> bool:
        return not self.to_send


@dataclass(frozen=True, slots=True)
class OwnSink:
    """Whose letters they are: the sink's options, and where its letters lie."""

    options: Mapping[str, str]
    """Of the sink alone."""
    directory: str


def plan_replay(
    table: Table,
    sink_id: str,
    *,
    instant: InstantTime = "",
    letters: Sequence[str] = (),
    cause: str = "",
    given: OwnSink | None = None,
) -> ReplayPlan:
    """What a replay would send: of the letters of one commit, or of all of them, those that are
    named `partition:offset` and that have the cause. What is empty chooses nothing away, but all of
    it would choose everything: only the shell may, which shows them first, and names the sink and
    any directory of this machine as `given`. Changes nothing.

    Raises InvalidRequest, NotAllowedNow for a sink that was not launched here, StorageUnavailable.
    """
    from workers.sink.dead_letter_selection import (
        select_dead_letters,  # Late: few requests read Parquet.
    )
    from workers.write.dead_letters import ERROR_COLUMN

    if instant and not INSTANT_TIME.match(instant):
        raise InvalidRequest("invalid instant time: expected 17 digits", instant=instant[:32])
    if not (instant or letters or cause or given):
        raise InvalidRequest("select the dead letters: of a commit, by topic offsets, or by cause")
    sink = given or launched_sink(table, sink_id)
    try:
        names, is_partial = _files(table, sink_id, instant, is_shell=given is not None)
        choice = parse_selection(places=letters, cause=cause)
        sent = find_sent_letters(read_replays(storage_of(table), sink_id))
        chosen = select_dead_letters(sink.directory, names, choice, sent.keys())
        earlier = _newest(sent.values()) if chosen.already else None
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
    except StorageFailed as error:
        raise StorageUnavailable("the dead letters cannot be read") from error
    except LakehouseError as error:
        raise NotAllowedNow(f"the dead letters cannot be read: {error.message}") from error
    causes = chosen.letters.column(ERROR_COLUMN).unique().to_pylist()
    return ReplayPlan(
        instant=instant,
        letters=sorted(letters),
        cause=cause,
        topic=sink.options["hoodie.kafka.topic"],
        directory=sink.directory,
        to_send=chosen.letters.num_rows,
        already=chosen.already,
        last_sent_by=earlier.by if earlier else "",
        last_sent_at=datetime.fromtimestamp(earlier.at_ms / 1000, UTC) if earlier else None,
        causes=[str(one) for one in causes[:CAUSES_SHOWN]],
        is_partial=is_partial,
    )


def launched_sink(table: Table, sink_id: str) -> OwnSink:
    """The one that was launched here last. Raises NotAllowedNow where there was none."""
    operation = newest_operation(table, sink_id)
    if operation is None:
        raise NotAllowedNow(
            "this node did not launch the sink, so its broker is unknown: pass the "
            f"options to `{format_command('sink replay')}`",
            sink=sink_id,
        )
    options = own_options(operation.parameters["job"]["sink_options"])
    check_brokers(sink_config(options), table.namespace)
    directory = (
        options.get("hoodie.sink.dead.letter.path", "") or f"{table.location}{LETTERS_SUFFIX}"
    )
    return OwnSink(options, checked_place_beside(table, directory))


def _files(
    table: Table, sink_id: str, instant: InstantTime, *, is_shell: bool
) -> tuple[list[str], bool]:
    """Names of the letters' files, and whether older ones were left out. The shell, beside which
    nothing syncs, takes all of them from storage.
    """
    if not is_shell:
        return letter_files(table, sink_id, instant)
    opened = engine_table(table)
    return list_dead_letter_files(opened, sink_key=ID_KEY, sink_id=sink_id, instant=instant), False


def _newest(replays: Collection[Replay]) -> Replay | None:
    return max(replays, key=lambda replay: replay.number, default=None)
