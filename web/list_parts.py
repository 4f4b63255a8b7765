"""Lists that a page shows in part, each with the way to its whole list on the same page.

`?all=NAME` lists the rows of one list from the beginning, `&page=2` those that follow. Every other
list of the page stays as it is. `templates/components/list_end.html` shows the way below a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from django.http import QueryDict
from django.utils.datastructures import MultiValueDictKeyError

PAGE_ROWS: Final = 500
"""Rows of a whole list on one page."""
PAGES_MAX: Final = 2_000
ALL: Final = "all"
PAGE: Final = "page"

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class ListWindow:
    """The rows of one list that a request asks for."""

    name: str
    start: int
    stop: int
    """The row behind the last one."""
    is_whole: bool
    """The request asks for the whole list, not for its first rows."""
    query: QueryDict


@dataclass(frozen=True, slots=True)
class ListPart(Generic[Row]):
    """Some rows of a list, and the addresses of the others."""

    rows: Sequence[Row]
    first: int
    """The number of the first row, from 1."""
    total: int | None
    """None if more rows follow, and their number is unknown."""
    all_url: str
    """Empty if every row is shown, or the request asks for all."""
    fewer_url: str
    """Empty unless the request asks for all."""
    earlier_url: str
    next_url: str

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1

    @property
    def is_cut(self) -> bool:
        """Return whether some rows are not shown here."""
        return bool(self.all_url or self.fewer_url)


def read_window(query: QueryDict, name: str, limit: int) -> ListWindow:
    """Return the window of a list: its first `limit` rows, or a page of the whole list."""
    if query.get(ALL) != name:
        return ListWindow(name, 0, limit, False, query)
    number = _read_page(query)
    return ListWindow(name, (number - 1) * PAGE_ROWS, number * PAGE_ROWS, True, query)


def cut_list(query: QueryDict, name: str, rows: Sequence[Row], limit: int) -> ListPart[Row]:
    """Return the rows of a list in memory that a request asks for."""
    window = read_window(query, name, limit)
    return build_part(window, rows[window.start : window.stop], total=len(rows))


def build_part(window: ListWindow, rows: Sequence[Row], *, total: int | None) -> ListPart[Row]:
    """Return a part from the rows of its window.

    Without a `total`, `rows` must have one row more than the window if more rows follow.
    """
    size = window.stop - window.start
    visible = rows[:size]
    has_more = len(rows) > size if total is None else total > window.start + len(visible)
    if total is None and not has_more:
        total = window.start + len(visible)
    page = window.start // PAGE_ROWS + 1
    return ListPart(
        rows=visible,
        first=window.start + 1 if visible else 0,
        total=total,
        all_url=_address(window, 1) if has_more and not window.is_whole else "",
        fewer_url=_address(window, 0) if window.is_whole else "",
        earlier_url=_address(window, page - 1) if window.is_whole and page > 1 else "",
        next_url=_address(window, page + 1) if window.is_whole and has_more else "",
    )


def _address(window: ListWindow, page: int) -> str:
    """Return the relative address of a page of the whole list; for 0 that of its first rows."""
    query = window.query.copy()
    for name in (ALL, PAGE):
        query.pop(name, None)
    if page:
        query[ALL] = window.name
    if page > 1:
        query[PAGE] = str(page)
    return f"?{query.urlencode()}#{window.name}"


def _read_page(query: QueryDict) -> int:
    """Return the page of an address, 1 if it has none that is valid."""
    try:
        number = int(str(query[PAGE]))
    except (MultiValueDictKeyError, ValueError):
        return 1
    return min(max(number, 1), PAGES_MAX)
