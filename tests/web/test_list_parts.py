"""Every list that a page shows in part links to the whole list, which has all rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape

import pytest
from django.http import QueryDict
from django.test import Client

from controlplane.tables.models import Table
from tests.support.markup import compact
from web.list_parts import PAGE_ROWS, ListPart, build_part, cut_list, read_window
from web.pages import files, home, locks, rollback, savepoints, schedules, schema, sinks
from web import plans, table_service_board

HOME = {name: 1 for name in home.ROWS_SHOWN}


def cut(rows: Sequence[int], address: str = "", limit: int = 3) -> ListPart[int]:
    return cut_list(QueryDict(address), "rows", rows, limit)


def test_first_rows_link_to_all_and_keep_the_filters_of_the_page() -> None:
    part = cut(range(5), "sort=name&page=4")

    assert (list(part), part.first, part.last, part.total) == ([0, 1, 2], 1, 3, 5)
    assert part.all_url == "?sort=name&all=rows#rows"
    assert not part.next_url


def test_a_list_with_few_rows_has_no_links() -> None:
    assert not cut(range(3)).is_cut


def test_whole_list_has_every_row_on_its_pages() -> None:
    rows = range(PAGE_ROWS * 2 + 1)

    part = cut(rows, "all=rows")
    listed = [*part]
    while part.next_url:
        part = cut(rows, part.next_url.removeprefix("?").partition("#")[0])
        listed += part

    assert listed == list(rows)
    assert part.earlier_url == "?all=rows&page=2#rows"
    assert part.fewer_url == "?#rows"


@pytest.mark.parametrize("page", ["", "0", "-1", "x", "9" * 30])
def test_an_invalid_page_is_a_page_without_an_error(page: str) -> None:
    assert cut(range(5), f"all=rows&page={page}").first in (0, 1)


def test_another_list_of_the_page_stays_as_it_is() -> None:
    assert list(cut(range(5), "all=others")) == [0, 1, 2]


@pytest.mark.parametrize(("read", "is_cut"), [(4, True), (3, False)])
def test_one_row_more_than_the_window_means_that_more_follow(read: int, is_cut: bool) -> None:
    part = build_part(read_window(QueryDict(), "rows", 3), range(read), total=None)

    assert part.is_cut == is_cut
    assert part.total == (None if is_cut else 3)
