"""What a program asks a node about sinks and streams, and what it has it do with them."""

from __future__ import annotations

from .connection import Connection, segment, table_path
from .rows import (
    CellAnswer,
    GroupCommitRow,
    JoinStatus,
    LetterCommitRow,
    ParticipantRow,
    SinkSummary,
    StreamRounds,
    StreamsBoard,
    TraceRow,
    TransactionRow,
)


class SinkCalls:
    """A part of `Client`."""

    _connection: Connection

    # Sinks

    def sinks(self, slug: str) -> list[SinkSummary]:
        """The sinks that write into a table, each with its state."""
        return self._connection.get(list[SinkSummary], f"{table_path(slug)}sinks/")

    def sink(self, slug: str, sink_id: str) -> SinkSummary:
        """One sink, as it stands."""
        return self._connection.get(SinkSummary, _sink(slug, sink_id))

    def sink_participants(
        self, slug: str, sink_id: str, *, after: int | None = None
    ) -> list[ParticipantRow]:
        """Its participants by partition, behind the partition `after`."""
        path = f"{_sink(slug, sink_id)}participants/"
        return self._connection.get(list[ParticipantRow], path, {"after": after})

    def sink_transactions(self, slug: str, sink_id: str) -> list[TransactionRow]:
        """Its newest transactions, and how each ended."""
        return self._connection.get(list[TransactionRow], f"{_sink(slug, sink_id)}transactions/")

    def sink_trace(self, slug: str, sink_id: str) -> list[TraceRow]:
        """The newest messages between its coordinator and its participants."""
        return self._connection.get(list[TraceRow], f"{_sink(slug, sink_id)}trace/")

    def dead_letters(self, slug: str, sink_id: str) -> list[LetterCommitRow]:
        """Commits that left records out, and how many."""
        path = f"{_sink(slug, sink_id)}dead-letters/"
        return self._connection.get(list[LetterCommitRow], path)

    # Streams

    def streams(self, slug: str) -> JoinStatus:
        """How complete the joined rows of a table are, and how far each stream has come."""
        return self._connection.get(JoinStatus, f"{table_path(slug)}streams/")

    def streams_board(self, slug: str) -> StreamsBoard:
        """Its streams as they were declared, with what was measured of each."""
        return self._connection.get(StreamsBoard, f"{table_path(slug)}streams/join/")

    def stream_rounds(self, slug: str) -> list[StreamRounds]:
        """What each stream wrote over time."""
        return self._connection.get(list[StreamRounds], f"{table_path(slug)}streams/rounds/")

    def stream_commits(self, slug: str) -> list[GroupCommitRow]:
        """The newest commits of streams."""
        return self._connection.get(list[GroupCommitRow], f"{table_path(slug)}streams/commits/")

    def explain_cell(
        self, slug: str, key: str, *, column: str = "", partition: str | None = None
    ) -> list[CellAnswer]:
        """Why columns of one row hold what they do, or nothing."""
        query = {"key": key, "column": column or None, "partition": partition}
        return self._connection.get(list[CellAnswer], f"{table_path(slug)}streams/explain/", query)


def _sink(slug: str, sink_id: str) -> str:
    return f"{table_path(slug)}sinks/{segment(sink_id)}/"
