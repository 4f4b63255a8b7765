"""`manage.py audit`, and `flush`, which empties what nothing else may."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command

from controlplane.audit.actions import do_record
from controlplane.audit.models import AuditEvent
from controlplane.audit.shell import shell_user

Sql = Callable[..., None]


def audit(*words: str) -> str:
    printed = io.StringIO()
    call_command("audit", *words, stdout=printed)
    return printed.getvalue()


def test_verify_says_what_is_good_and_the_newest_link(chain: list[AuditEvent]) -> None:
    newest = f"{chain[5].sequence}:{chain[5].hash}"

    assert audit("verify") == f"6 rows are as they were written; the newest is {newest}\n"
    assert audit("verify", "--expect", newest)


def test_verify_ends_with_1_and_the_first_row_that_is_wrong(sql: Sql) -> None:
    sql("UPDATE audit_auditevent SET reason = 'another' WHERE sequence IN (3, 5)")

    with pytest.raises(CommandError, match=r"changed: row 3 \(id \d+\) was changed") as refused:
        audit("verify")

    assert refused.value.returncode == 1
    assert "row 5" not in str(refused.value)
    assert "the database lacks audit_event_insert" in str(refused.value)


def test_a_tail_that_is_gone_with_everything_that_knew_it_is_seen_by_a_link_from_the_log(
    chain: list[AuditEvent], sql: Sql
) -> None:
    sql("DELETE FROM audit_auditevent WHERE sequence > 4")
    sql("UPDATE audit_audithead SET sequence = 4, hash = %s", chain[3].hash)
    assert audit("guard").startswith("made audit_event_insert")

    with pytest.raises(CommandError, match="there is no row 6 with the hash that it had"):
        audit("verify", "--expect", f"6:{chain[5].hash}")


def test_guards_are_made_again_once_and_that_is_recorded(sql: Sql) -> None:
    assert "audit_event_delete" in audit("guard")
    assert audit("guard") == "all are there\n"

    made = AuditEvent.objects.get(what="audit.guard")
    assert (made.who, "audit_event_delete" in made.details["made"]) == (shell_user(), True)


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
