"""The checks of a commit under the lock: its condition, undone reads, the schema, competing
commits.
"""

from __future__ import annotations

from dataclasses import replace

from workers.concurrency.begin import StartedTransaction
from workers.concurrency.conflicts import Conflict, write_set
from workers.concurrency.file_conflicts import RivalCheck
from workers.concurrency.lapsed_heartbeat import BY, decide_foreign_rollback
from workers.concurrency.outcome import CommitOutcome, RolledBack, load_outcome
from workers.concurrency.proposal import Proposal
from workers.concurrency.read_set import find_undone_read, undone_schema_conflict
from workers.concurrency.reader_divergence import count_ahead
from workers.concurrency.republish import compare_ahead, plan_republish
from workers.concurrency.rolled_back_commits import find_undone_schema
from workers.concurrency.schema_resolution import SchemaAtStart, resolve_commit_schema
from workers.options.write_options import WriteOptions
from workers.options.writer_modes import ConcurrencyMode
from workers.table.table import Table
from workers.timeline import decisions
from workers.timeline.extra_metadata import encode_counts
from workers.timeline.instant import State
from workers.timeline.metadata import (
    SCHEMA_KEY,
    SCHEMA_RESOLUTION_KEY,
)
from workers.timeline.timeline import Timeline


def find_external_decision(
    table: Table, started: StartedTransaction, timeline: Timeline, proposal: Proposal
) -> CommitOutcome | None:
    """Return the outcome if another process decided the instant or removed it; None otherwise."""
    instant = started.instant.requested_at
    if decisions.is_decided(table.storage, instant):
        return load_outcome(table, instant)
    mine = timeline.find(instant)
    if mine is None or mine.state is not State.INFLIGHT:
        return RolledBack(instant, BY, "its timeline files are gone")
    if started.heartbeat.has_lapsed:
        return decide_foreign_rollback(table, instant, timeline, proposal.metadata.paths)
    return None


def build_rival_check(
    table: Table, options: WriteOptions, started: StartedTransaction, proposal: Proposal
) -> RivalCheck:
    """Build the comparison of `proposal` with competing commits."""
    ours = write_set(
        started.instant.requested_at,
        proposal.metadata,
        proposal.writer,
        whole_partitions=proposal.whole_partitions,
        is_whole_table=proposal.is_whole_table,
    )
    return RivalCheck(
        table, options.mode, started.timeline, ours, proposal.metadata, proposal.reads.keys
    )


def prepare_rival_check(
    table: Table, options: WriteOptions, started: StartedTransaction, proposal: Proposal
) -> RivalCheck:
    """Build the comparison, and do as much of it as possible before other writers wait for the
    lock.
    """
    rivals = build_rival_check(table, options, started, proposal)
    if options.mode is ConcurrencyMode.SINGLE_WRITER:
        count_ahead(started.timeline, proposal.divergence)
    else:
        rivals.check_ahead()
        count_ahead(table.timeline(), proposal.divergence)
        compare_ahead(table, started.timeline, proposal.out_of_order)
    return rivals


def validate_proposal(
    table: Table,
    options: WriteOptions,
    started: StartedTransaction,
    timeline: Timeline,
    proposal: Proposal,
    rivals: RivalCheck,
) -> Proposal | Conflict:
    """Return `proposal` as it may be committed on top of `timeline`, or the conflict that it lost.

    Requires the table lock. Raises MalformedTable for a commit that cannot be read, InvalidInput
    for partitions that nest.
    """
    verdict = proposal.condition(timeline) if proposal.condition else {}
    if isinstance(verdict, Conflict):
        return verdict
    proposal = replace(proposal, metadata=proposal.metadata.with_extra(**verdict))
    undone = find_undone_read(table, started.timeline, timeline, proposal.reads, proposal.writer)
    if undone is not None:
        return undone
    if (undone := _find_undone_schema(table, started, timeline, proposal)) is not None:
        return undone
    # A single writer is checked too: it costs nothing when it is alone, and loses nothing when it
    # is not.
    resolved = _resolve_schema(table, options, started, timeline, proposal)
    if isinstance(resolved, Conflict):
        return resolved
    if (conflict := rivals.find_conflict(timeline)) is not None:
        return conflict
    if proposal.partitions is not None:
        proposal.partitions.check(proposal.written_partitions, rivals.list_partitions(timeline))
    return _plan_republish(table, started, timeline, resolved)


def _find_undone_schema(
    table: Table, started: StartedTransaction, timeline: Timeline, proposal: Proposal
) -> Conflict | None:
    """Return the conflict with an undone schema. Deletes have no schema that could conflict, but
    base files that they rewrite have the schema that the write began with.
    """
    if not proposal.deletes_only or all(stat.is_log for stat in proposal.metadata.stats):
        return None
    lost = find_undone_schema(table, started.schema, started.timeline, timeline)
    return None if lost is None else undone_schema_conflict(lost, proposal.writer)


def _plan_republish(
    table: Table, started: StartedTransaction, timeline: Timeline, proposal: Proposal
) -> Proposal:
    """Add what readers that order by request time would miss, and the keys of which they still read
    another row.
    """
    again = plan_republish(
        table,
        timeline,
        started.timeline,
        started.instant.requested_at,
        proposal.schema,
        proposal.writer,
        proposal.out_of_order,
    )
    if proposal.divergence is None:
        return replace(proposal, republish=again)
    counts = proposal.divergence.count_keys(timeline, again.rows if again else None)
    metadata = proposal.metadata.with_extra(**encode_counts(counts))
    return replace(proposal, republish=again, metadata=metadata, divergent_keys=counts)


def _resolve_schema(
    table: Table,
    options: WriteOptions,
    started: StartedTransaction,
    timeline: Timeline,
    proposal: Proposal,
) -> Proposal | Conflict:
    start = SchemaAtStart(
        instant=started.instant.requested_at,
        timeline=started.timeline,
        version=started.schema,
        writer=proposal.writer,
        schema=proposal.schema,
        written=proposal.written,
        deletes_only=proposal.deletes_only,
        logs=tuple(stat.path for stat in proposal.metadata.stats if stat.is_log),
    )
    resolved = resolve_commit_schema(table, options, start, timeline)
    if isinstance(resolved, Conflict):
        return resolved
    extra = {SCHEMA_KEY: resolved.schema.avro_json, SCHEMA_RESOLUTION_KEY: resolved.record}
    metadata = proposal.metadata.with_extra(**extra)
    return replace(proposal, metadata=metadata, schema=resolved.schema)
