"""What a replay of dead letters still has to send, as storage shows it."""

from __future__ import annotations

from controlplane.mirror.storage import engine_table
from controlplane.operations.models import Operation
from workers.sink.dead_letters import list_dead_letter_files
from workers.sink.replays import find_sent_letters, read_replays
from workers.sink.sink_commits import ID_KEY


def letters_left(operation: Operation) -> int:
    """How many of the chosen letters are not sent. Raises LakehouseError without storage."""
    from workers.sink.dead_letter_selection import (  # Late: it reads Parquet.
        parse_selection,
        select_dead_letters,
    )

    job, table = operation.parameters["job"], engine_table(operation.table)
    names = list_dead_letter_files(
        table, sink_key=ID_KEY, sink_id=operation.sink_id, instant=job["instant"]
    )
    choice = parse_selection(places=job["letters"], cause=job["cause"])
    sent = find_sent_letters(read_replays(table.storage, operation.sink_id))
    return select_dead_letters(job["directory"], names, choice, sent.keys()).letters.num_rows
