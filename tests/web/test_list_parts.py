"""Lists that a page shows in part: each links to its whole list, which has every row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from html import unescape
from types import ModuleType
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import QueryDict
from django.template import Context
from django.test import Client
from django.test.utils import ContextList
from django.utils import timezone

from controlplane.audit.actions import do_record
from controlplane.mirror.models import FileGroupRecord, InstantRecord
from controlplane.mirror.storage import storage_of
from controlplane.mirror.sync import sync_table
from controlplane.operations.models import Operation, Schedule, ScheduleRun
from controlplane.tables.models import Table
from tests.support.many_tables import many_tables
from tests.support.markup import compact
from tests.support.sinks import stuck_state
from tests.web.conftest import fill, instant
from web import plans, table_service_board
from web.list_parts import PAGE_ROWS, ListPart, build_part, cut_list, read_window
from web.pages import files as file_pages
from web.pages import home, locks, rollback, savepoints, schedules, schema, sinks
from workers.sink.state_file import put_state

pytestmark = pytest.mark.sampled(every=2)

HOME = dict.fromkeys(home.ROWS_SHOWN, 1)
RUN = "/t/trips/services/run"


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


@pytest.fixture
def lake(busy: Table, trips: Table, orders: Table, admin: User) -> None:
    """Tables with two or more rows in every list of a page."""
    many_tables(3, timezone.now())
    now = datetime.now(UTC)
    fill("bees", admin, now=now)
    for at in range(2):
        InstantRecord.objects.create(
            table=busy, requested_at=instant(now, seconds=90 + at), action="clean",
            state="completed", completed_at=instant(now, seconds=80 + at),
        )  # fmt: skip
        do_record(who="ada", what="operation.write", subject=busy.slug, result="done")
    Operation.objects.create(table=busy, kind="service", service="clean", state="succeeded")
    Operation.objects.create(table=busy, kind="service", service="clean", state="running")
    FileGroupRecord.objects.create(
        table=busy, partition="oslo", file_id="f", base_bytes=7, bytes=7, slices=1,
        first_instant=instant(now, seconds=9), last_instant=instant(now, seconds=9),
        is_replaced=False,
    )  # fmt: skip
    schedule = Schedule.objects.create(
        table=busy, name="nightly", kind="service", service="clean", trigger="every", every_s=60,
        begins_at=now, changed_at=now, owner=admin,
    )  # fmt: skip
    for at in range(2):
        ScheduleRun.objects.create(
            schedule=schedule, turn=str(at), due_at=now - timedelta(hours=at), outcome="skipped"
        )
    put_state(storage_of(orders), stuck_state())
    sync_table(orders)


def find_parts(value: object, depth: int = 4) -> Iterator[ListPart[Any]]:
    """Yield the list parts in the context of a page."""
    if isinstance(value, ListPart):
        yield value
    elif isinstance(value, ContextList | Context):
        for inner in value:
            yield from find_parts(inner, depth)
    elif not depth or isinstance(value, str | bytes):
        return
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from find_parts(inner, depth - 1)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from find_parts(inner, depth - 1)
    elif is_dataclass(value):
        for field in fields(value):
            yield from find_parts(getattr(value, field.name), depth - 1)


LISTS = [
    *((home, "ROWS_SHOWN", HOME, "/", name) for name in HOME),
    (locks, "WAITS_LISTED", 1, "/t/trips/locks", "waits"),
    (savepoints, "CHOICES_SHOWN", 1, "/t/trips/savepoints", "candidates"),
    (rollback, "CHOICES_SHOWN", 1, "/t/trips/rollback", "choices"),
    (schema, "VERSIONS_SHOWN", 1, "/t/ads/schema", "versions"),
    (file_pages, "PARTITIONS_SHOWN", 1, "/t/ads/files", "partitions"),
    (table_service_board, "HISTORY_SHOWN", 1, "/t/ads/services", "history"),
    (table_service_board, "STARTED_SHOWN", 1, "/t/ads/services", "started"),
    (schedules, "RUNS_SHOWN", 1, "/t/ads/schedules", "runs"),
    (sinks, "PARTICIPANTS_SHOWN", 1, "/t/orders/sinks", "participants"),
    (sinks, "TRACE_ROWS", 1, "/t/orders/sinks", "trace"),
    (plans, "ITEMS_SHOWN", 1, f"{RUN}/clean?hoodie.clean.commits.retained=1", "delete"),
]


@pytest.mark.parametrize(
    ("module", "constant", "limit", "page", "name"), LISTS, ids=[line[-1] for line in LISTS]
)
def test_cut_list_links_to_all_its_rows(
    module: ModuleType,
    constant: str,
    limit: object,
    page: str,
    name: str,
    lake: None,
    as_admin: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, constant, limit)
    first = as_admin.get(page)
    assert first.status_code == 200
    [address] = {
        unescape(found)
        for found in re.findall(r'href="(\?[^"]*)"', first.content.decode())
        if QueryDict(unescape(found).partition("#")[0][1:]).get("all") == name
    }

    whole = as_admin.get(page.partition("?")[0] + address.partition("#")[0])

    assert whole.status_code == 200
    part = next(part for part in find_parts(first.context) if f"all={name}" in part.all_url)
    all_rows = next(part for part in find_parts(whole.context) if part.fewer_url)
    assert len(part) == 1
    assert all_rows.total is not None
    assert len(all_rows) == all_rows.total > 1
    assert f"1 to {all_rows.total} of {all_rows.total}" in compact(whole.content.decode())
    assert f'id="{name}"' in whole.content.decode()
