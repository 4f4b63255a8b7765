"""Threat T23, the other side: statements that people mean well are answered, and rightly; and what
the checker would let slip reaches nothing in DuckDB either.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import duckdb
import pytest

from tests.controlplane.sql_tables import CANARY
from tests.support.honest_statements import HONEST, ORDERS_ROWS, answered
from tests.support.statement_files import planted, statements
from workers.sandboxed_duckdb import open_sandboxed_duckdb

HOSTILE = statements("hostile")


@pytest.mark.parametrize(("title", "text"), HONEST, ids=[title for title, _ in HONEST])
def test_an_honest_statement_is_answered_rightly(title: str, text: str) -> None:
    rows, expected = answered(text)

    assert rows == expected


def test_there_are_thirty_honest_statements_at_least() -> None:
    assert len({text for _, text in HONEST}) == len(HONEST) >= 30


def test_what_slips_through_reaches_nothing_in_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if there were no checker: the text itself goes to the engine."""
    canary_file = tmp_path / "canary.csv"
    canary_file.write_text(f"content\n{CANARY}\n")
    monkeypatch.setenv("SLUICE_CANARY", CANARY)
    database = open_sandboxed_duckdb(memory_bytes=100 << 20, threads=1)
    answers = []

    for title, text in HOSTILE:
        if text.startswith("REPEAT") or title in ("stars of stars", "aliases of aliases"):
            continue  # They want time, not what others have.
        database.register("orders", ORDERS_ROWS)
        with suppress(duckdb.Error):
            database.execute(planted(text, canary_file))
            answers.append(str(database.fetchall()))

    assert len(answers) > 3
    assert [answer for answer in answers if CANARY in answer] == []
    assert canary_file.read_text() == f"content\n{CANARY}\n"
