"""The guided demo as a strip above the pages of the demo's tables: what each step does, where to
see it, what proves it, and which steps storage shows as done.
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
from controlplane.tables.access import Permission
from web.additions import may_be_seen

if TYPE_CHECKING:
    from controlplane.tables.models import Table

COOKIE: Final = "sluice_demo"
SHAPES: Final = frozenset({"line", "full", "hidden"})
"""What the cookie may hold. Home shows every step unless the strip is hidden; other pages one line
unless it is `full`.
"""
_HOME: Final = "home"
_PAGES_OF_ALL: Final = ("tables", _HOME)


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its texts, its table, what its button does."""

    name: str
    title: str
    happens: str
    look_at: str
    proof: str
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


def _show_kill(progress: Progress) -> str:
    if progress.subject:
        return f"{_page('timeline', streams.SLUG)}?sel={progress.subject}"
    return _page("live", streams.SLUG)


def _undo(progress: Progress) -> str:
    if progress.subject:
        return _page("operation", prices.SLUG, progress.subject)
    return _page("rollback", prices.SLUG)


STEPS: Final = (
    Step(
        name="meet",
        title="Two writers meet",
        happens=(
            "Two backfills write the same file groups at the same time. One detects the markers of "
            "the other and stops before it wastes more work."
        ),
        look_at="Why it lost: both writers side by side, and the file groups that both wrote.",
        proof="One backfill committed. The table has no row of the other one.",
        started="Two backfills start on the same file groups. One will stop early.",
        slug=streams.SLUG,
        permission=Permission.ADMINISTER,
        do=lambda table, by: do_start_demo_early_conflict(_there(table), by),
        show=_conflict,
    ),
    Step(
        name="schema",
        title="Two writers change the schema",
        happens=(
            "Both start with the same schema, and each adds another column: case 8 of RFC-82. The "
            "first commit wins. The second is rejected."
        ),
        look_at="Why it lost: the schema at the start, at the commit, and of the writer.",
        proof="The table has one new column. The rejected write names the fields that differ.",
        started="Two writers change the schema in different ways. The second will be rejected.",
        slug=streams.SLUG,
        permission=Permission.ADMINISTER,
        do=lambda table, by: do_start_demo_schema_conflict(_there(table), by),
        show=_conflict,
    ),
    Step(
        name="kill",
        title="A writer is killed",
        happens=(
            "The process of one stream gets SIGKILL in the middle of a write. Its heartbeat stops "
            "and expires after 10 s. Streams that have ended start again first."
        ),
        look_at="Live: the writer's heartbeat turns old, and a new process takes over the stream.",
        proof="A rollback removed the half-written instant: on the timeline it ends in a triangle.",
        started="The next stream that writes is killed. A rollback follows its last heartbeat.",
        slug=streams.SLUG,
        permission=Permission.ADMINISTER,
        do=lambda table, by: streams.do_kill_stream(by),
        show=_show_kill,
    ),
    Step(
        name="participant",
        title="A sink participant is killed",
        happens=(
            "One worker of the Kafka sink gets SIGKILL inside a transaction. The transaction times "
            "out and is aborted."
        ),
        look_at="Sinks: the partitions without a participant, then the newest transactions.",
        proof="The next transaction commits. The offsets of Kafka and of the table agree.",
        started="A participant was killed. Its transaction times out, and the next one commits.",
        slug=sink.SLUG,
        permission=Permission.ADMINISTER,
        do=lambda table, by: do_kill_demo_participant(_there(table), by),
        show=lambda progress: f"{_page('sinks', sink.SLUG)}?sink={sink.SINK_ID}",
    ),
    Step(
        name="late",
        title="Clicks arrive late",
        happens="400 ad requests are written at once. Their clicks follow 45 s later.",
        look_at="Streams: the share of rows that have the columns of click.",
        proof="The share drops with the requests and rises again with their clicks.",
        started="400 requests are written now. Their clicks follow 45 s later.",
        slug=streams.SLUG,
        permission=Permission.ADMINISTER,
        do=lambda table, by: do_start_demo_late_clicks(_there(table), by),
        show=lambda progress: _page("streams", streams.SLUG),
    ),
    Step(
        name="rollback",
        title="A wrong load is rolled back",
        happens=(
            "A price list is loaded with prices 100 times too high. You get the plan of its "
            "rollback: type the table's name and a reason, and run it."
        ),
        look_at="The plan, which lists every file that goes, then the operation's page.",
        proof="Three checks against storage. The audit has your name and reason.",
        started="The wrong prices are in the table. This is the plan of their rollback.",
        slug=prices.SLUG,
        permission=Permission.ADMINISTER,
        do=lambda table, by: do_load_wrong_prices(by),
        show=_undo,
    ),
)


def _there(table: Table | None) -> Table:
    assert table is not None, "the page checks for the table first"
    return table


@dataclass(frozen=True, slots=True)
class ShownStep:
    step: Step
    progress: Progress
    show: str
    """Where it is seen; empty before there is such a table."""
    is_next: bool
    number: int


@dataclass(frozen=True, slots=True)
class ShownStory:
    steps: tuple[ShownStep, ...]
    done: int
    back: str
    """The address of the page below it."""
    is_line: bool
    """Only the current step, in one line."""
    can_fold: bool

    @property
    def following(self) -> ShownStep | None:
        """The first step that is not done."""
        return next((step for step in self.steps if step.is_next), None)


def strip_of(request: HttpRequest) -> ShownStory | None:
    """On the pages of the demo's tables and of all tables, unless it is hidden."""
    match = request.resolver_match
    shape = request.COOKIES.get(COOKIE)
    if match is None or shape == "hidden":
        return None
    is_here = match.kwargs.get("slug") in SLUGS or match.url_name in _PAGES_OF_ALL
    if not is_here or not isinstance(request.user, User):
        return None
    if not may_be_seen(request, streams.SLUG):
        return None
    return shown_story(request.user, request.get_full_path(), shape)


def shown_story(user: User, back: str, shape: str | None) -> ShownStory | None:
    seen = story(user)
    if seen is None:
        return None
    can_fold = back.partition("?")[0] != reverse(_HOME)
    return ShownStory(_shown(seen), seen.done, back, can_fold and shape != "full", can_fold)


def _shown(seen: Story) -> tuple[ShownStep, ...]:
    following = next((one.name for one in seen.steps if not one.is_done), "")
    return tuple(
        ShownStep(
            step,
            progress,
            step.show(progress) if step.slug in seen.tables else "",
            progress.name == following,
            number,
        )
        for number, (step, progress) in enumerate(zip(STEPS, seen.steps, strict=True), 1)
    )


def step_named(name: str) -> Step | None:
    return next((step for step in STEPS if step.name == name), None)


def after(step: Step, outcome: Any) -> str:
    """Where its button leads."""
    if step.name == "rollback":
        row, instant = outcome
        return _page("rollback-plan", row.slug, instant)
    return step.show(Progress(step.name))
