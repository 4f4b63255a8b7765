"""`manage.py write` says what became of each row of its file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from pytest_django import Settings

from controlplane.audit.models import AuditEvent
from controlplane.audit.shell import act_as
from workers.lakehouse import open_table


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
    assert "98 of 100 rows have the same key (city)" in printed.err
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


def test_options_of_a_file_are_kept_for_the_next_one(
    db: None, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "day1.csv").write_text("id;price\n7;1,5\n")
    (tmp_path / "day2.csv").write_text("id;price\n8;2,25\n")
    words = ["--name", "prices", "--no-spark"]

    call_command(
        "write", str(tmp_path / "day1.csv"), *words, "--delimiter=;", "--decimal-comma=true",
        "--column-types=id=string",
    )  # fmt: skip
    call_command("write", str(tmp_path / "day2.csv"), *words)

    assert "last load into this table: column_types=id=string, decimal_comma=true, delimiter=;" in (
        capsys.readouterr().out
    )
    rows = open_table(f"{root}/prices").read(columns=["id", "price"]).to_pylist()
    assert sorted(rows, key=str) == [{"id": "7", "price": 1.5}, {"id": "8", "price": 2.25}]


def test_patterns_and_folders_are_loaded_in_one_commit(
    db: None, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "drop"
    folder.mkdir()
    (folder / "0.csv").write_text("id,n\n1,1\n")
    (folder / "1.csv").write_text("n,id\n2,2\n")
    (folder / "notes.md").write_text("no rows\n")

    call_command("write", str(folder), "--name", "both", "--no-spark")
    call_command("write", f"{folder}/*.csv", "--no-spark")

    printed = capsys.readouterr().out
    assert printed.count("2 rows read, 0 merged away, 2 written") == 2
    assert f"rows in the table: 2 ({root}/t_0)" in printed


def test_a_table_is_gone_again_when_its_first_write_is_refused(
    db: None, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "bad.csv").write_text("id,day\n1,a\\b\n")

    with pytest.raises(CommandError, match="forbidden character"):
        call_command("write", str(tmp_path / "bad.csv"), "--no-spark", "--partition-by", "day")

    assert not (root / "bad").exists()


def test_a_write_is_in_the_audit_before_and_after_it(
    admin: User, root: Path, two_cities: Path, settings: Settings
) -> None:
    settings.SLUICE_SOURCE_ROOTS = (str(two_cities.parent),)
    words = ["--no-spark", "--key-from", "city,n", "--reason", "a backfill"]
    act_as(admin.username)
    try:
        call_command("write", str(two_cities), *words)
        call_command("write", str(two_cities), "--no-spark", "--operation", "upsert", *words[1:])
    finally:
        act_as("")

    rows = AuditEvent.objects.filter(what="operation.write").order_by("pk")
    assert [(row.who, row.object, row.result, row.reason) for row in rows] == [
        ("ada", "seen", result, "a backfill") for result in ("requested", "succeeded") * 2
    ]
    assert rows[0].details["source"] == {"files": ["seen.csv"]}


def test_a_write_that_fails_is_in_the_audit(db: None, root: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("id,day\n1,a\\b\n")

    with pytest.raises(CommandError, match="forbidden character"):
        call_command("write", str(tmp_path / "bad.csv"), "--no-spark", "--partition-by", "day")

    rows = AuditEvent.objects.filter(what="operation.write").order_by("pk")
    assert [(row.object, row.result) for row in rows] == [("bad", "requested"), ("bad", "failed")]
    assert rows[0].who.endswith(" (shell)")


def test_rows_beyond_the_memory_are_written_in_one_commit(
    db: None, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "big.csv"
    lines = [f"{at % 9000},{at % 3},{'x' * 60}{at}" for at in range(15_000)]
    file.write_text("\n".join(["id,part,text", *lines]))
    words = ["--no-spark", "--memory-mb=1", "--partition-by", "part"]

    call_command("write", str(file), *words)

    printed = capsys.readouterr()
    assert "15000 rows read, 6000 merged away, 9000 written" in printed.out
    table = open_table(f"{root}/big")
    assert len(table.timeline()) == 2, "its creation and the write"
    texts = dict(zip(*table.read(columns=["id", "text"]).to_pydict().values(), strict=True))
    assert texts[5] == f"{'x' * 60}9005"
    assert texts[8999] == f"{'x' * 60}8999"


def test_a_refusal_far_behind_the_memory_leaves_no_table(
    db: None, root: Path, tmp_path: Path
) -> None:
    file = tmp_path / "big.csv"
    lines = [f"{at},{at % 2}{'x' * 90}" for at in range(12_000)]
    file.write_text("\n".join(["id,day", *lines, "12001,a\\b"]))

    with pytest.raises(CommandError, match="forbidden character"):
        call_command("write", str(file), "--no-spark", "--memory-mb=1", "--partition-by", "day")

    assert not (root / "big").exists()
