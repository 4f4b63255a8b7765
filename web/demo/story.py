"""The guided demo as a strip above the pages of the demo's tables: what to see, what to press, what
has really happened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import reverse

from controlplane.demo import prices, sink, streams
from controlplane.demo.actions import (
    do_start_demo_early_conflict,
    do_start_demo_late_clicks,
    do_start_demo_schema_conflict,
)
from controlplane.demo.participants import do_kill_demo_participant
from controlplane.demo.prices import do_load_wrong_prices
from controlplane.demo.story import SLUGS, Progress, Story, story
from controlplane.demo.streams import DemoRun, start_streams
from controlplane.tables.access import Permission
from web.additions import may_be_seen

if TYPE_CHECKING:
    from controlplane.tables.models import Table

HIDDEN_COOKIE: Final = "sluice_demo"
_PAGES_OF_ALL: Final = ("tables", "home")


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its words, its table, what its button does."""

    name: str
    title: str
    text: str
    breaks: str
    """What it breaks on purpose; empty for nothing."""
    deed: str
    started: str
    slug: str
    permission: Permission
    do: Callable[[Table | None, User], object]
    show: Callable[[Progress], str]


def _page(name: str, slug: str, *more: str) -> str:
    return reverse(name, args=[slug, *more])


def _conflict(progress: Progress) -> str:
    if progress.subject:
        return _page("conflict", streams.SLUG, progress.subject)
    return _page("live", streams.SLUG) + "#conflicts"


def _undo(progress: Progress) -> str:
    if progress.subject:
        return _page("operation", prices.SLUG, progress.subject)
    return _page("rollback", prices.SLUG)


STEPS: Final = (
    Step(
        "writers",
        "Writers, now",
        "Three streams write one table at once. Each has a heart that beats; a gap is seen here.",
        "",
        "Start them",
        "The streams start. Their heartbeats show on the live page.",
        streams.SLUG,
        Permission.OPERATE,
        lambda table, by: start_streams(by, DemoRun()),
        lambda progress: _page("live", streams.SLUG),
    ),
    Step(
        "early",
        "One is stopped early",
        "Two backfills write the same file groups. One sees the other's markers and stops.",
        "One backfill is lost; no row of it is in the table.",
        "Let two meet",
        "Two backfills start on the same file groups. One will be stopped while it writes.",
        streams.SLUG,
        Permission.ADMINISTER,
        lambda table, by: do_start_demo_early_conflict(_there(table), by),
        _conflict,
    ),
    Step(
        "schema",
        "Two change the schema",
        "Both add a column, each another one: case 8. Whoever is second is refused.",
        "One write is lost, and says which fields disagree.",
        "Change it twice",
        "Two writers change the schema in different ways. The second to finish is refused.",
        streams.SLUG,
        Permission.ADMINISTER,
        lambda table, by: do_start_demo_schema_conflict(_there(table), by),
        _conflict,
    ),
    Step(
        "participant",
        "A sink loses a participant",
        "What was not committed is given up. The next transaction has every record, once.",
        "One worker of the sink gets SIGKILL.",
        "Kill one",
        "A participant was killed. Watch its transaction be given up, and the next one commit.",
        sink.SLUG,
        Permission.ADMINISTER,
        lambda table, by: do_kill_demo_participant(_there(table), by),
        lambda progress: f"{_page('sinks', sink.SLUG)}?sink={sink.SINK_ID}",
    ),
    Step(
        "late",
        "Clicks come late",
        "400 requests come without their clicks: the share that has clicks falls, and heals.",
        "Nothing is broken; for a minute rows lack what is not there yet.",
        "Be late",
        "A burst of requests is written now; its clicks follow within a minute.",
        streams.SLUG,
        Permission.ADMINISTER,
        lambda table, by: do_start_demo_late_clicks(_there(table), by),
        lambda progress: _page("streams", streams.SLUG),
    ),
    Step(
        "rollback",
        "Undo a wrong load",
        "See what a rollback would delete, run it, see the proof and the audit's record of it.",
        "A price list is loaded with prices a hundred times too high.",
        "Load it, and plan",
        "The wrong prices are in. This is what taking them back would do.",
        prices.SLUG,
        Permission.ADMINISTER,
        lambda table, by: do_load_wrong_prices(by),
        _undo,
    ),
)


def _there(table: Table | None) -> Table:
    assert table is not None, "the page looks for the table first"
    return table


@dataclass(frozen=True, slots=True)
class ShownStep:
    step: Step
    progress: Progress
    show: str
    """Where it is seen; empty before there is such a table."""
    is_next: bool


@dataclass(frozen=True, slots=True)
class ShownStory:
    steps: tuple[ShownStep, ...]
    done: int
    back: str
    """The address of the page below it."""


def strip_of(request: HttpRequest) -> ShownStory | None:
    """On the pages of the demo's tables and of all tables, unless somebody has hidden it."""
    match = request.resolver_match
    if match is None or request.COOKIES.get(HIDDEN_COOKIE) == "hidden":
        return None
    is_here = match.kwargs.get("slug") in SLUGS or match.url_name in _PAGES_OF_ALL
    if not is_here or not isinstance(request.user, User):
        return None
    if not may_be_seen(request, streams.SLUG):
        return None
    return shown_story(request.user, request.get_full_path())


def shown_story(user: User, back: str) -> ShownStory | None:
    seen = story(user)
    if seen is None:
        return None
    return ShownStory(_shown(seen), seen.done, back)


def _shown(seen: Story) -> tuple[ShownStep, ...]:
    following = next((one.name for one in seen.steps if not one.is_done), "")
    return tuple(
        ShownStep(
            step,
            progress,
            step.show(progress) if step.slug in seen.tables else "",
            progress.name == following,
        )
        for step, progress in zip(STEPS, seen.steps, strict=True)
    )


def step_named(name: str) -> Step | None:
    return next((step for step in STEPS if step.name == name), None)


def after(step: Step, outcome: Any) -> str:
    """Where its button leads."""
    if step.name == "rollback":
        row, instant = outcome
        return _page("rollback-plan", row.slug, instant)
    return step.show(Progress(step.name))
