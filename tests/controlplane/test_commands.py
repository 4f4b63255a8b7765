"""The shell's way to the mirror: register, list, sync, rebuild."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from controlplane.mirror.models import InstantRecord
from tests.controlplane.lake import Lake


def run(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def test_a_table_is_registered_once(db: None, root: Path) -> None:
    assert "registered rides" in run("table", "register", f"{root}/rides", "--slug", "rides")
    assert run("table", "list") == f"rides\t{root}/rides\n"

    with pytest.raises(CommandError, match="slug is taken"):
        run("table", "register", f"{root}/other", "--slug", "rides")


def test_sync_says_what_changed_and_rebuild_brings_all_of_it_back(lake: Lake) -> None:
    lake.commit({"id": "1", "ts": 1, "city": "Oslo"})

    assert "instants changed" in run("sync")
    assert run("sync", "trips") == "trips: up to date\n"
    before = InstantRecord.objects.count()
    assert "instants changed" in run("sync", "trips", "--rebuild")
    assert InstantRecord.objects.count() == before


def test_an_unknown_table_is_named(db: None) -> None:
    with pytest.raises(CommandError, match="nowhere"):
        run("sync", "nowhere")
