"""Conflicts by writer, and who claims what: counts as shaded tables on the pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.mirror.sync import sync_table
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from controlplane.writers.conflicts import rivalries
from tests.support.lost_writes import CITIES, LostWrites, begin, copied, rides
from tests.support.markup import compact
from web.heat_table import COLUMNS_MAX, LINES_MAX, HeatCell, heat_table


@pytest.fixture
def lost(root: Path, lost_writes_once: LostWrites) -> LostWrites:
    return copied(lost_writes_once, root / "contested")


@pytest.fixture
def contested(lost: LostWrites, admin: User) -> Table:
    row = do_register_table(
        location=str(lost.location), slug="contested", name="contested", by=admin
    )
    sync_table(row)
    return row


def test_fullest_lines_and_columns_come_first_with_a_shade_of_their_own() -> None:
    heat = heat_table({("a", "x"): 1, ("b", "x"): 2, ("b", "y"): 8}, marked={("b", "x")})

    assert heat is not None
    assert heat.columns == ("y", "x")
    assert [(line.key, line.total) for line in heat.lines] == [("b", 10), ("a", 1)]
    assert heat.lines[0].cells == (HeatCell(8, 4), HeatCell(2, 1, is_marked=True))
    assert heat.lines[1].cells == (HeatCell(0, 0), HeatCell(1, 1))
    assert heat.left_out == 0


def test_what_is_not_shown_is_counted_and_nothing_is_no_table() -> None:
    most = max(LINES_MAX, COLUMNS_MAX) + 3
    heat = heat_table({(f"{n:02}", f"{n:02}"): most - n for n in range(most)})

    assert heat is not None
    assert (len(heat.lines), len(heat.columns)) == (LINES_MAX, COLUMNS_MAX)
    shown = sum(cell.count for line in heat.lines for cell in line.cells)
    assert shown + heat.left_out == most * (most + 1) // 2
    assert heat_table({}) is None


def test_conflicts_say_who_loses_to_whom(contested: Table, as_viewer: Client) -> None:
    counts = rivalries(contested)
    page = as_viewer.get("/t/contested/conflicts").content.decode()
    part = as_viewer.get("/t/contested/conflicts/rivals").content.decode()

    assert sum(counts.values()) == contested.conflicts.count()
    assert "Conflicts by writer" in page
    assert _rows(page) == _rows(part)
    assert {name for name, _ in _rows(part)} == {loser for loser, _ in counts}
    assert sum(int(total) for _, total in _rows(part)) == sum(counts.values())


def test_claims_stand_by_partition_and_those_that_meet_are_framed(
    contested: Table, lost: LostWrites, as_viewer: Client
) -> None:
    assert "Claims by partition" not in as_viewer.get("/t/contested/writers").content.decode()
    first = begin(lost.location, rides(0, 40, cities=CITIES[:2]), writer="first")
    second = begin(lost.location, rides(0, 40, cities=CITIES[1:3]), writer="second")
    sync_table(contested)

    page = as_viewer.get("/t/contested/writers").content.decode()
    table = page.partition("Claims by partition")[2].partition("</table>")[0]

    assert _rows(table) == [("first", "8"), ("second", "8")]
    # Four file groups of each of two partitions; both writers have those of narvik.
    assert table.count("is-met") == 2
    assert re.findall(r'title="(\w+)"', table) == ["narvik", "bergen", "oslo"]
    first.wins()
    second.loses()


def test_table_without_conflicts_has_no_rivals(trips: Table, as_viewer: Client) -> None:
    assert "Conflicts by writer" not in as_viewer.get("/t/trips/conflicts").content.decode()


def _rows(html: str) -> list[tuple[str, str]]:
    """(name, sum) of each line of the heat table."""
    table = html.partition('class="heat-table"')[2].partition("</table>")[0]
    lines = re.findall(r"<tr data-key=.*?</tr>", compact(table or html))
    return [
        (
            re.sub("<.*?>", "", re.findall(r'<th scope="row">(.*?)</th>', line)[0]),
            re.findall(r'class="num">([\d,]+)</td>', line)[-1],
        )
        for line in lines
    ]
