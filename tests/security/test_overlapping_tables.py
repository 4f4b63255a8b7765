"""Threat T2: no two tables overlap, whoever registers, relocates or makes them, and however many do
so at once; `t1` is no part of `t10`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest
from django.contrib.auth.models import User

from bench.support.postgres import postgres_cluster
from controlplane.errors import InvalidRequest
from controlplane.operations.ask import Requester
from controlplane.operations.requesting import Given
from controlplane.operations.table_changes.actions import TableChange, do_change_table
from controlplane.operations.table_creation.actions import do_create_table
from controlplane.operations.table_creation.definition import Column, NewTable
from controlplane.tables.actions import do_register_table
from controlplane.tables.locations import overlap
from controlplane.tables.models import Table

REPOSITORY = Path(__file__).parents[2]
PAIRS = 1000
ROUNDS = 25
ROUNDS_WHOLE = 200
SEED = os.environ["SLUICE_TEST_SEED"]
Placed = Callable[[str], object]


@pytest.fixture
def placing(trips: Table, admin: User, root: Path) -> dict[str, Placed]:
    """Each way in which a table comes to a place below the root."""
    by = Requester.person(admin)

    def relocate(place: str) -> object:
        shutil.copytree(root / "trips", root / place, dirs_exist_ok=True)
        return do_change_table(
            trips, TableChange(location=f"{root}/{place}"), by=by, given=Given(reason="a test")
        )

    def create(place: str) -> object:
        new = NewTable(
            location=f"{root}/{place}",
            slug="another",
            columns=[Column("id", "string")],
            record_key=["id"],
        )
        return do_create_table(new, by=by, given=Given())

    return {
        "register": lambda place: do_register_table(
            location=f"{root}/{place}", slug="another", by=admin
        ),
        "relocate": relocate,
        "create": create,
    }


def test_whether_places_overlap_is_told_by_their_parts() -> None:
    drawn = random.Random(f"{SEED} pairs")

    def place() -> str:
        return "/lake/" + "/".join(drawn.choices(("t", "t1", "t10", "t1x"), k=drawn.randint(1, 3)))

    wrong = []
    for _ in range(PAIRS):
        first, second = place(), place()
        parts, others = PurePosixPath(first).parts, PurePosixPath(second).parts
        shared = min(len(parts), len(others))
        if overlap(first, second) is not (parts[:shared] == others[:shared]):
            wrong.append((first, second))

    assert wrong == []


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("way", ["register", "relocate", "create"])
@pytest.mark.parametrize("place", ["lake/t1/inner", "lake/t1/.hoodie", "lake", "lake/t1"])
def test_no_way_leads_into_around_or_onto_another_table(
    way: str, place: str, placing: dict[str, Placed], admin: User, root: Path
) -> None:
    do_register_table(location=f"{root}/lake/t1", slug="t1", by=admin)
    before = set(Table.objects.values_list("slug", "location"))

    with pytest.raises(InvalidRequest) as refused:
        placing[way](place)

    assert "overlaps" in f"{refused.value} {refused.value.values}"
    assert set(Table.objects.values_list("slug", "location")) == before


@pytest.mark.parametrize("way", ["register", "relocate", "create"])
def test_a_name_that_begins_alike_is_another_place(
    way: str, placing: dict[str, Placed], admin: User, root: Path
) -> None:
    do_register_table(location=f"{root}/lake/t1", slug="t1", by=admin)

    placing[way]("lake/t10")

    assert Table.objects.filter(location=f"{root}/lake/t10").exists()


def test_a_link_does_not_hide_that_two_places_are_one(
    placing: dict[str, Placed], admin: User, root: Path
) -> None:
    (root / "lake" / "t1").mkdir(parents=True)
    (root / "elsewhere").symlink_to(root / "lake")
    do_register_table(location=f"{root}/lake/t1", slug="t1", by=admin)

    for way in ("register", "create"):
        with pytest.raises(InvalidRequest):
            placing[way]("elsewhere/t1/inner")


def raced(tmp_path: Path, database: str, rounds: int) -> None:
    """Of all who want one place and one slug at a time, what cannot be together never is."""
    (tmp_path / "lake").mkdir()

    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.security.racing_registrations",
            str(tmp_path / "lake"),
            str(rounds),
        ],
        cwd=REPOSITORY,
        env={**os.environ, "SLUICE_TEST_DATABASE": database, "SLUICE_LOG_LEVEL": "ERROR"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert ended.returncode == 0, ended.stderr[-3000:]
    said = json.loads(ended.stdout)
    assert said["wrong"] == []
    assert said["winners"]["apart"] == said["rounds"] == rounds
    # Of the others one at least won each round, and the inner place only where the outer did not.
    outer = said["winners"].get("outer", 0) + said["winners"].get("same", 0)
    assert outer + said["winners"].get("inner", 0) == rounds


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [ROUNDS, pytest.param(ROUNDS_WHOLE, marks=pytest.mark.slow)])
def test_who_registers_at_once_on_sqlite_never_overlaps(tmp_path: Path, rounds: int) -> None:
    raced(tmp_path, str(tmp_path / "race.sqlite3"), rounds)


@pytest.mark.slow
def test_who_registers_at_once_on_postgresql_never_overlaps(tmp_path: Path) -> None:
    with postgres_cluster() as address:
        raced(tmp_path, address, ROUNDS_WHOLE)
