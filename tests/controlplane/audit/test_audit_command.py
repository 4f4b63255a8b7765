"""`manage.py audit`, and `flush`, which empties what nothing else may."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from controlplane.audit.actions import do_record
from controlplane.audit.models import AuditEvent
from controlplane.audit.shell import get_shell_user
from tests.support.source_files import REPOSITORY

Sql = Callable[..., None]


def audit(*words: str) -> str:
    printed = io.StringIO()
    call_command("audit", *words, stdout=printed)
    return printed.getvalue()


def test_verify_says_what_is_good_and_the_newest_link(chain: list[AuditEvent]) -> None:
    newest = f"{chain[5].sequence}:{chain[5].hash}"

    assert audit("verify") == f"6 rows are unchanged; the newest row is {newest}\n"
    assert audit("verify", "--expect", newest)


def test_verify_ends_with_1_and_the_first_row_that_is_wrong(sql: Sql) -> None:
    sql("UPDATE audit_auditevent SET reason = 'another' WHERE sequence IN (3, 5)")

    with pytest.raises(CommandError, match=r"changed: row 3 \(id \d+\) was changed") as refused:
        audit("verify")

    assert refused.value.returncode == 1
    assert "row 5" not in str(refused.value)
    assert "the database lacks audit_event_insert" in str(refused.value)


@pytest.mark.slow
def test_a_command_logs_what_it_appends_to_the_shells_file_and_only_warnings_to_the_terminal(
    tmp_path: Path,
) -> None:
    """In a process of its own: `manage.py`, whose first lines a user sees."""
    program = """
import logging
audit = logging.getLogger("controlplane.audit.actions")
audit.info("audit row: sequence=1")
audit.warning("audit rows are not chained")
logging.getLogger("controlplane.node").info("started")
"""
    ended = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", program],
        cwd=REPOSITORY,
        env={**os.environ, "SLUICE_HOME": str(tmp_path), "SLUICE_SECRET_KEY": "of-a-test"},
        capture_output=True,
        text=True,
        check=True,
    )

    kept = (tmp_path / "log" / "shell.log").read_text(encoding="utf-8").splitlines()
    assert [line.partition(" INFO ")[2] for line in kept[:1]] == [
        "controlplane.audit.actions audit row: sequence=1"
    ]
    assert ["audit rows are not chained" in line for line in kept] == [False, True]
    assert "audit row:" not in ended.stderr
    assert "audit rows are not chained" in ended.stderr
    assert "started" in ended.stderr


def test_a_tail_that_is_gone_with_everything_that_knew_it_is_seen_by_a_link_from_the_log(
    chain: list[AuditEvent], sql: Sql
) -> None:
    sql("DELETE FROM audit_auditevent WHERE sequence > 4")
    sql("UPDATE audit_audithead SET sequence = 4, hash = %s", chain[3].hash)
    assert audit("guard").startswith("created audit_event_insert")

    with pytest.raises(CommandError, match="row 6 does not exist with the expected hash"):
        audit("verify", "--expect", f"6:{chain[5].hash}")


def test_guards_are_made_again_once_and_that_is_recorded(sql: Sql) -> None:
    assert "audit_event_delete" in audit("guard")
    assert audit("guard") == "no trigger is missing\n"

    made = AuditEvent.objects.get(what="audit.guard")
    assert (made.who, "audit_event_delete" in made.details["made"]) == (get_shell_user(), True)


def test_list_prints_the_newest_rows_that_match_a_line_each(chain: list[AuditEvent]) -> None:
    do_record(who="olaf", what="sink.stop", subject="a\x1b[2J\nb", result="requested")

    assert len(audit("list", "--limit", "3").splitlines()) == 3
    (stopped,) = audit("list", "--what", "sink.").splitlines()
    assert stopped.split("\t")[1:] == [
        "-", "olaf", "sink.stop", "a\\x1b[2J\\nb", "requested", "",
    ]  # fmt: skip
    assert audit("list", "--who", "nobody") == ""
    with pytest.raises(CommandError, match="the limit must be 1 to 500"):
        audit("list", "--limit", "0")


def test_export_is_recorded_before_and_after(chain: list[AuditEvent]) -> None:
    rows = json.loads(audit("export", "--as", "json", "--object", "trips"))

    assert [row["sequence"] for row in rows] == [6, 5, 4, 3, 2, 1]
    noted = AuditEvent.objects.filter(what="audit.export").order_by("pk")
    asked_for = {"as": "json", "filter": {"object": "trips"}}
    assert [(event.result, event.details) for event in noted] == [
        ("requested", asked_for),
        ("done", {**asked_for, "rows": 6}),
    ]


@pytest.mark.django_db(transaction=True)
def test_flush_empties_the_audit_and_the_next_row_begins_a_new_chain() -> None:
    do_record(who="ada", what="x", subject="o", result="done")

    call_command("flush", interactive=False, verbosity=0)

    assert not AuditEvent.objects.exists()
    do_record(who="ada", what="y", subject="o", result="done")
    assert AuditEvent.objects.get().sequence == 1
    assert audit("verify").startswith("1 rows are")
