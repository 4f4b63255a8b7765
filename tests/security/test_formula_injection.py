"""Threat T18: what a spreadsheet would take for a formula is text in every export."""

from __future__ import annotations

import csv
import io

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.audit.actions import do_record
from controlplane.audit.exports import do_export
from controlplane.audit.queries import AuditFilter

STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


@pytest.mark.django_db
@pytest.mark.parametrize("start", STARTS, ids=repr)
def test_no_cell_of_an_exported_audit_is_a_formula(start: str) -> None:
    text = f"{start}1+cmd|' /C calc'!A0"
    do_record(
        who=text, what=text, subject=text, result=text, reason=text, plan_hash=text,
        details={text: text},
    )  # fmt: skip

    pieces = b"".join(do_export(AuditFilter(who=text), "csv", by="eve")).decode()

    header, *rows = csv.reader(io.StringIO(pieces, newline=""))
    (row,) = rows
    cells = dict(zip(header, row, strict=True))
    texts = ("who", "what", "object", "result", "reason", "plan_hash")
    assert [cells[name] for name in texts] == [f"'{text}"] * len(texts)
    assert [cell for cell in row if cell.startswith(STARTS)] == []
    assert len(header) == len(row) == 15


def test_the_file_that_a_browser_gets_is_defused_too(client: Client, db: None) -> None:
    auditor = User.objects.create_superuser("root", password="a long password")
    do_record(who="=HYPERLINK(1)", what="x", subject="o", result="done")
    client.force_login(auditor)

    response = client.get("/api/v1/audit/export/?what=x&file_format=csv")

    content = b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]  # not on the base class
    assert "'=HYPERLINK(1)" in content
    assert ",=HYPERLINK(1)" not in content
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Disposition"] == 'attachment; filename="audit.csv"'
