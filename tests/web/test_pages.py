"""Every page, per role: what it answers, what it costs, what its policy forbids."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.staticfiles import finders
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from controlplane.mirror.models import HeartbeatRecord, InstantRecord
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from tests.support.markup import compact
from tests.web.conftest import fill
from web.charts import MARKS_MAX
from web.windows import to_instant

CHARTED = (
    "/", "/t/ads/", "/t/ads/timeline", "/t/ads/files", "/t/ads/schema", "/t/ads/services",
    "/t/ads/markers", "/t/ads/trends",
)  # fmt: skip
PAGES = (
    "/tables/", "/operations", "/t/ads/live", "/t/ads/writers", "/t/ads/locks",
    "/t/ads/conflicts", "/t/ads/rollback", "/t/ads/savepoints",
    "/t/ads/schedules",
    *CHARTED,
)  # fmt: skip
FRAGMENTS = (
    "/home/part", "/home/hours", "/tables/rows", "/operations/rows", "/t/ads/writers/part",
    "/t/ads/conflicts/rows", "/t/ads/conflicts/rivals",
    "/t/ads/locks/parts/now", "/t/ads/locks/parts/history",
    "/t/ads/markers/parts/server", "/t/ads/markers/parts/directories", "/t/ads/health",
    "/t/ads/files/rows", "/t/ads/savepoints/rows", "/t/ads/schedules/rows",
    *(f"/t/ads/services/parts/{part}" for part in ("cards", "plans", "history")),
    "/t/ads/timeline/rows", "/t/ads/timeline/figure", "/t/ads/rollback/choices",
    *(f"/t/ads/live/{part}" for part in
      ("figures", "writers", "streams", "markers", "server", "operations", "conflicts", "undone",
       "demo")),
)  # fmt: skip
QUERIES_MAX = 14
"""Sign-in (three queries) included, and that the table cannot be read (one, or two on the overview,
whose checks say it as well).
"""
OVERVIEW_QUERIES_MAX = QUERIES_MAX
"""Its checks ask which thresholds hold for the table, and what commits say of hosts' clocks."""
DATA_QUERIES_MAX = 12
WINDOW_BYTES_MAX = 250_000
LIVE_QUERIES_MAX = 12
"""Its ten parts are read by one statement."""


DATA_PAGES = (
    "/schedules", "/sql", "/t/ads/data", "/t/ads/data/plan",
    "/t/ads/data/row?key=1", "/t/ads/data/compare", "/t/ads/data/changes/20260101000000000",
)  # fmt: skip
"""Frames of the pages of rows, and what else has a budget of its own."""


def test_viewer_sees_every_page_and_fragment(busy: Table, as_viewer: Client) -> None:
    answers = {path: as_viewer.get(path).status_code for path in PAGES + FRAGMENTS}

    assert answers == dict.fromkeys(answers, 200)


@pytest.mark.sampled(every=4)
@pytest.mark.usefixtures("redis_down")
@pytest.mark.parametrize("path", ["/login/", *PAGES, *FRAGMENTS])
def test_pages_answer_while_redis_is_down(path: str, busy: Table, as_viewer: Client) -> None:
    assert as_viewer.get(path).status_code == 200


@pytest.mark.usefixtures("redis_down")
def test_signing_out_works_while_redis_is_down(busy: Table, as_viewer: Client) -> None:
    assert as_viewer.post("/logout/").status_code == 302


@pytest.fixture
def redis_down(settings: Settings) -> None:
    backend = "django.core.cache.backends.redis.RedisCache"
    nowhere = "unix:///nowhere/redis.sock"
    settings.CACHES = {"default": {"BACKEND": backend, "LOCATION": nowhere}}
    settings.SLUICE_REDIS_URL = nowhere


def test_stranger_is_sent_to_the_login_and_comes_back(db: None) -> None:
    answers = {path: Client().get(path) for path in PAGES + FRAGMENTS}

    assert {answer.status_code for answer in answers.values()} == {302}
    assert {path: answer["Location"] for path, answer in answers.items()} == {
        path: f"/login/?next={path}" for path in answers
    }


def test_user_without_a_role_learns_nothing(busy: Table, nobody: User) -> None:
    client = Client()
    client.force_login(nobody)

    answers = {path: client.get(path) for path in PAGES + FRAGMENTS}

    assert {answer.status_code for answer in answers.values()} == {403}
    assert [path for path, answer in answers.items() if b"/lake/ads" in answer.content] == []


def test_login_refuses_with_a_reason_and_keeps_the_name(admin: User) -> None:
    answer = Client().post("/login/", {"username": "ada", "password": "wrong"})

    assert b"Not signed in." in answer.content
    assert b'value="ada"' in answer.content


def test_each_page_asks_the_database_a_bounded_number_of_times(
    busy: Table, admin: User, as_viewer: Client
) -> None:
    for at in range(5):
        fill(f"more-{at}", admin)
    longer = {
        **dict.fromkeys(PAGES, QUERIES_MAX),
        **dict.fromkeys(DATA_PAGES, DATA_QUERIES_MAX),
        "/t/ads/live": LIVE_QUERIES_MAX,
        "/t/ads/": OVERVIEW_QUERIES_MAX,
        "/t/ads/services": QUERIES_MAX + 1,  # Messages of its operations need row access.
    }

    for path, most in longer.items():
        with CaptureQueriesContext(
            connection,
        ) as queries:
            as_viewer.get(path)
        assert len(queries) <= most, (path, [query["sql"][:90] for query in queries])


def test_policy_allows_own_scripts_only_and_styles_in_line_only_beside_a_chart(
    busy: Table, as_viewer: Client
) -> None:
    for path in [*PAGES, "/login/", "/nothing"]:
        policy = as_viewer.get(path)["Content-Security-Policy"]

        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert rules["default-src"] == "'none'", path
        assert rules["script-src"] == "'self'", path
        in_line = "'self' 'unsafe-inline'" if path in CHARTED else "'self'"
        assert rules["style-src"] == in_line, path


def test_pages_carry_no_script_style_or_handler_of_their_own(
    busy: Table, as_viewer: Client
) -> None:
    for path in [*PAGES, "/login/"]:
        html = as_viewer.get(path).content.decode()

        assert not re.search(r"\son[a-z]+=", html), path
        assert not re.search(r"\sstyle=", html), path
        scripts = re.findall(r"<script([^>]*)>", html)
        assert all("src=" in script or 'type="application/json"' in script for script in scripts)
        assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", html), path


def test_pages_without_a_chart_are_light(busy: Table, as_viewer: Client) -> None:
    for path in [path for path in PAGES if path not in CHARTED]:
        html = as_viewer.get(path).content
        weight = len(gzip.compress(html))

        assert b"plotly" not in html, path
        # Each is fetched once, however many icons of a page name it.
        for name in set(re.findall(r'(?:src|href)="/static/([^"#]+)', html.decode())):
            file = finders.find(name)
            assert file, name
            weight += len(gzip.compress(Path(file).read_bytes()))
        assert weight < 30_000, path


def test_plotly_comes_from_its_wheel_and_nothing_else_of_it_does() -> None:
    assert finders.find("plotly/plotly.min.js")
    assert not finders.find("plotly/widgetbundle.js")


def test_fragment_is_what_the_page_showed_first(busy: Table, as_viewer: Client) -> None:
    page = _without_ages(as_viewer.get("/t/ads/live").content.decode())

    for part in ("streams", "conflicts", "operations"):
        lines = _without_ages(as_viewer.get(f"/t/ads/live/{part}").content.decode()).splitlines()
        missing = [line for line in lines if line.strip() and line not in page]
        assert missing == []


def test_parts_in_one_answer_are_those_of_single_answers(busy: Table, as_viewer: Client) -> None:
    names = ("streams", "operations", "conflicts")
    with CaptureQueriesContext(connection) as captured:
        answer = as_viewer.get(f"/t/ads/live/parts?names={','.join(names)},nothing")

    assert len(captured) <= LIVE_QUERIES_MAX
    html = _without_ages(answer.content.decode())
    assert re.findall(r'<template data-part="(\w+)">', html) == list(names)
    for name in names:
        assert _without_ages(as_viewer.get(f"/t/ads/live/{name}").content.decode()).strip() in html


def test_parts_of_another_name_are_not_found(busy: Table, as_viewer: Client) -> None:
    assert as_viewer.get("/t/ads/live/parts?names=nothing").status_code == 404


def _without_ages(html: str) -> str:
    """A second may pass between two looks."""
    return re.sub(r"\d+ (s|min|h)\b", "AGE", html)


def test_selected_instant_is_part_of_the_address(busy: Table, as_viewer: Client) -> None:
    requested_at = InstantRecord.objects.filter(action="deltacommit").earliest("pk").requested_at

    html = as_viewer.get(f"/t/ads/timeline?by=writer&sel={requested_at}").content.decode()

    assert 'class="is-selected"' in html
    assert f'data-copy="{requested_at}"' in html
    assert '<option value="writer" selected>' in html


def test_instant_that_was_rolled_back_says_so(busy: Table, as_viewer: Client) -> None:
    answer = as_viewer.get("/t/ads/timeline/instant/20200101000000000")

    assert answer.status_code == 200
    assert b"Not on the timeline" in answer.content


def test_crowded_window_is_counted_and_a_narrow_one_shows_bars(
    busy: Table, as_viewer: Client
) -> None:
    start = 1_790_000_000_000
    InstantRecord.objects.bulk_create(
        InstantRecord(
            table=busy, requested_at=to_instant(start + at * 1000), action="commit",
            state="completed", completed_at=to_instant(start + at * 1000 + 400),
        ) for at in range(MARKS_MAX + 40)
    )  # fmt: skip

    def figure(seconds: int) -> dict[str, Any]:
        window = {"from": to_instant(start), "to": to_instant(start + seconds * 1000)}
        answer = as_viewer.get("/t/ads/timeline/figure", window).json()
        return {**answer["figure"]["data"][0], "summary": answer["summary"]}

    crowded, narrow = figure(MARKS_MAX + 40), figure(60)
    assert crowded["type"] == "heatmap"
    assert sum(sum(filter(None, row)) for row in crowded["z"]) == MARKS_MAX + 40
    assert "zoom in" in str(crowded["summary"])
    assert narrow["type"] == "bar"
    assert len(narrow["base"]) == 61


def test_answer_of_every_window_of_a_dense_timeline_is_small(
    busy: Table, as_viewer: Client
) -> None:
    start, count = 1_790_000_000_000, 4_000
    InstantRecord.objects.bulk_create(
        InstantRecord(
            table=busy, requested_at=to_instant(start + at * 1000), action="deltacommit",
            state="completed", completed_at=to_instant(start + at * 1000 + 400),
            operation_type="upsert", stream="impression", rows=12_345,
            writer_name=f"ingest-eu-west-{at % 60:02d}",
        ) for at in range(count)
    )  # fmt: skip

    sizes = {}
    for seconds in (60, 900, MARKS_MAX - 1, MARKS_MAX + 60, count, 50 * count):
        window = {"from": to_instant(start), "to": to_instant(start + seconds * 1000)}
        for by in ("action", "writer"):
            answer = as_viewer.get("/t/ads/timeline/figure", {**window, "by": by})
            sizes[seconds, by] = len(answer.content)

    assert max(sizes.values()) < WINDOW_BYTES_MAX, sizes


def test_quiet_table_shows_its_latest_instants_instead_of_an_empty_day(
    admin: User, as_viewer: Client
) -> None:
    table = Table.objects.create(slug="ads", name="ads", location="/lake/ads")
    InstantRecord.objects.create(
        table=table, requested_at="20200101000000000", action="commit", state="completed",
        completed_at="20200101000001000",
    )  # fmt: skip

    html = as_viewer.get("/t/ads/timeline").content.decode()

    assert "none in the last 24 h" in html
    assert "20200101000000000" in html


def test_empty_table_says_what_to_do_next(admin: User, as_viewer: Client) -> None:
    Table.objects.create(slug="ads", name="ads", location="/lake/ads")

    for path in PAGES:
        html = as_viewer.get(path).content.decode()

        assert "Traceback" not in html, path
        if path != "/tables/":  # It lists the table.
            assert re.search(r'class="(?:panel )?empty"', html), path


def test_cursor_that_is_none_is_refused_with_a_sentence(busy: Table, as_viewer: Client) -> None:
    answer = as_viewer.get("/t/ads/timeline?before=nonsense")

    assert answer.status_code == 400
    assert b"Bad request" in answer.content


@pytest.mark.parametrize(
    ("query", "there"),
    [
        ({"q": "ads"}, "/t/ads/live"),
        ({"q": "ad"}, "/tables/?q=ad"),
        ({"q": "20261120140322123", "table": "ads"}, "/t/ads/timeline?sel=20261120140322123"),
        ({"q": ""}, "/tables/"),
    ],
)
def test_search_leads_to_a_table_or_an_instant(
    query: dict[str, str], there: str, busy: Table, as_viewer: Client
) -> None:
    assert as_viewer.get("/go", query)["Location"] == there


def test_operation_of_another_table_is_not_found_here(
    busy: Table, admin: User, as_viewer: Client
) -> None:
    other = fill("other", admin)
    operation = Operation.objects.get(table=other)

    assert as_viewer.get(f"/t/other/operations/{operation.pk}").status_code == 200
    assert as_viewer.get(f"/t/ads/operations/{operation.pk}").status_code == 404


def test_theme_is_rendered_by_the_server_and_only_if_it_is_one(as_viewer: Client) -> None:
    as_viewer.cookies["sluice_theme"] = "dark"
    assert b'data-theme="dark"' in as_viewer.get("/").content

    as_viewer.cookies["sluice_theme"] = '"><script>'
    assert b"data-theme" not in as_viewer.get("/").content.split(b"<head>")[0]


def test_tables_page_filters_by_text(busy: Table, as_viewer: Client) -> None:
    assert b"No tables match" in as_viewer.get("/tables/?q=zzz").content
    assert b"/t/ads/live" in as_viewer.get("/tables/?q=ADS").content


@pytest.mark.parametrize(
    ("state", "is_loser", "word"),
    [
        ("completed", False, "committed"),
        ("inflight", False, "ended"),
        (None, False, "rolled back"),
        (None, True, "conflicted"),
    ],
)
def test_writer_that_ended_shows_what_became_of_its_instant(
    state: str | None, is_loser: bool, word: str, admin: User, as_viewer: Client
) -> None:
    now = timezone.now()
    table = Table.objects.create(slug="ads", name="ads", location="/lake/ads")
    requested_at = to_instant(int(now.timestamp() * 1000) - 9_000)
    HeartbeatRecord.objects.create(
        table=table,
        instant=requested_at,
        beat_at=now,
        interval_ms=2000,
        tolerable_misses=5,
        writer_name="w",
        is_gone=True,
        last_seen=now,
    )
    if state:
        InstantRecord.objects.create(
            table=table,
            requested_at=requested_at,
            action="commit",
            state=state,
            completed_at=requested_at if state == "completed" else None,
        )
    if is_loser:
        Conflict.objects.create(
            table=table, loser_instant=requested_at, kind="write", decided_at=now
        )

    html = compact(as_viewer.get("/t/ads/live/writers").content.decode())

    assert f"</svg> {word}</span>" in html


def test_page_of_a_write_stands_under_operations(busy: Table, as_viewer: Client) -> None:
    operation = Operation.objects.create(table=busy, kind="write", parameters={"job": {}})

    page = as_viewer.get(f"/t/ads/operations/{operation.pk}").content.decode()

    assert re.search(r'href="/operations"[^>]*aria-current="page"', page)
    assert not re.search(r'href="/t/ads/rollback"[^>]*aria-current="page"', page)
