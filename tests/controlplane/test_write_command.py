"""`manage.py write` says what became of each row of its file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import call_command


@pytest.fixture
def two_cities(tmp_path: Path) -> Path:
    file = tmp_path / "seen.csv"
    lines = [f"Oslo,{n}" for n in range(90)] + [f"Bergen,{n}" for n in range(10)]
    file.write_text("city,n\n" + "\n".join(lines) + "\n")
    return file


def test_a_key_that_is_not_unique_is_told_with_what_it_merges_away(
    db: None, root: Path, two_cities: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("write", str(two_cities), "--no-spark", "--record-key", "city")

    printed = capsys.readouterr()
    assert "100 rows read, 98 merged away, 2 written" in printed.out
    assert "98 of 100 rows have a key (city)" in printed.err
    assert "--key-from" in printed.err


def test_a_key_that_tells_rows_apart_is_told_without_a_warning(
    db: None, root: Path, two_cities: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("write", str(two_cities), "--no-spark", "--key-from", "city,n")

    printed = capsys.readouterr()
    assert "100 rows read, 0 merged away, 100 written" in printed.out
    assert printed.err == ""


def test_the_summary_of_a_write_is_readable(
    db: None, root: Path, two_cities: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("write", str(two_cities), "--no-spark", "--key-from", "city,n")

    printed = capsys.readouterr().out
    assert re.search(r"load: committed \d{17} with 100 rows, in \d+\.\d s\n", printed)
    assert f"rows in the table: 100 ({root}/seen)" in printed
    assert "Committed(" not in printed
