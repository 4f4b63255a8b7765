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
        rows: list[SinkSummary] = self._connection.get(f"{table_path(slug)}sinks/")
        return rows

    def sink(self, slug: str, sink_id: str) -> SinkSummary:
        """One sink, as it stands."""
        row: SinkSummary = self._connection.get(_sink(slug, sink_id))
        return row

    def sink_participants(
        self, slug: str, sink_id: str, *, after: int | None = None
    ) -> list[ParticipantRow]:
        """Its participants by partition, behind the partition `after`."""
        path = f"{_sink(slug, sink_id)}participants/"
        rows: list[ParticipantRow] = self._connection.get(path, {"after": after})
        return rows

    def sink_transactions(self, slug: str, sink_id: str) -> list[TransactionRow]:
        """Its newest transactions, and how each ended."""
        rows: list[TransactionRow] = self._connection.get(f"{_sink(slug, sink_id)}transactions/")
        return rows

    def sink_trace(self, slug: str, sink_id: str) -> list[TraceRow]:
        """The newest messages between its coordinator and its participants."""
        rows: list[TraceRow] = self._connection.get(f"{_sink(slug, sink_id)}trace/")
        return rows

    def dead_letters(self, slug: str, sink_id: str) -> list[LetterCommitRow]:
        """Commits that left records out, and how many."""
        path = f"{_sink(slug, sink_id)}dead-letters/"
        rows: list[LetterCommitRow] = self._connection.get(path)
        return rows

    # Streams

    def streams(self, slug: str) -> JoinStatus:
        """How complete the joined rows of a table are, and how far each stream has come."""
        status: JoinStatus = self._connection.get(f"{table_path(slug)}streams/")
        return status

    def streams_board(self, slug: str) -> StreamsBoard:
        """Its streams as they were declared, with what was measured of each."""
        board: StreamsBoard = self._connection.get(f"{table_path(slug)}streams/join/")
        return board

    def stream_rounds(self, slug: str) -> list[StreamRounds]:
        """What each stream wrote over time."""
        rows: list[StreamRounds] = self._connection.get(f"{table_path(slug)}streams/rounds/")
        return rows

    def stream_commits(self, slug: str) -> list[GroupCommitRow]:
        """The newest commits of streams."""
        rows: list[GroupCommitRow] = self._connection.get(f"{table_path(slug)}streams/commits/")
        return rows

    def explain_cell(
        self, slug: str, key: str, *, column: str = "", partition: str | None = None
    ) -> list[CellAnswer]:
        """Why columns of one row hold what they do, or nothing."""
        query = {"key": key, "column": column or None, "partition": partition}
        answers: list[CellAnswer] = self._connection.get(
            f"{table_path(slug)}streams/explain/", query
        )
        return answers


def _sink(slug: str, sink_id: str) -> str:
    return f"{table_path(slug)}sinks/{segment(sink_id)}/"
