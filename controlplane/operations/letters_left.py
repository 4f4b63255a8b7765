"""What a replay of dead letters still has to send, as storage shows it."""

from __future__ import annotations

from controlplane.mirror.storage import engine_table
from controlplane.operations.models import Operation
from workers.sink.letters import committed_letters
from workers.sink.replays import read_replays, sent_letters
from workers.sink.sink_commits import ID_KEY


def letters_left(operation: Operation) -> int:
    """How many of the chosen letters are not sent. Raises LakehouseError without storage."""
    from workers.sink.letter_choice import chosen_letters, letter_choice  # Late: it reads Parquet.

    job, table = operation.parameters["job"], engine_table(operation.table)
    names = committed_letters(
        table, sink_key=ID_KEY, sink_id=operation.sink_id, instant=job["instant"]
    )
    choice = letter_choice(places=job["letters"], cause=job["cause"])
    sent = sent_letters(read_replays(table.storage, operation.sink_id))
    return chosen_letters(job["directory"], names, choice, sent.keys()).letters.num_rows
