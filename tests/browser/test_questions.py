"""The questions of docs/dashboard-questions.md: each is answered within three clicks from Home."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seen, Site
from tests.browser.serving import ROOT

pytestmark = pytest.mark.browser

CLICKS_MAX = 3
DOCUMENT = ROOT / "docs/dashboard-questions.md"


class Typed(NamedTuple):
    """A text for a field; sent by Enter it counts as a click."""

    field: str
    text: str
    is_sent: bool = True


@dataclass(frozen=True, slots=True)
class Question:
    words: str
    steps: tuple[str | Typed, ...]
    """From Home: selectors to click, and fields to fill."""
    address: str
    """A pattern of the page that answers."""
    answer: tuple[str, ...]
    """Texts on it."""

    @property
    def clicks(self) -> int:
        return sum(not isinstance(step, Typed) or step.is_sent for step in self.steps)


def rail(title: str) -> str:
    return f'.rail a:has-text("{title}")'


def find(text: str) -> Typed:
    return Typed(".search input", text)


AUDIT = ('.rail summary:has-text("Administration")', rail("Audit"))
ASKED = (
    Question(
        "Which writer lost last, and why?",
        ("#conflicts td a",),
        r"/t/[\w-]+/conflicts/\d{17}$",
        ("file group", "What to do now"),
    ),
    Question(
        "What would this rollback delete?",
        (find("trips"), rail("Rollback"), 'a[aria-label^="Plan rollback"]'),
        r"/t/trips/rollback/\d{17}$",
        (".parquet",),
    ),
    Question(
        "Which stream is late, and since when?",
        ('#streams a:has-text("impression")',),
        r"/t/ad-join/streams$",
        ("Event lag", "impression", "ago"),
    ),
    Question(
        "Who deleted this row, and when?",
        (find("trips"), rail("Data"), Typed("#row-key", "59")),
        r"/t/trips/data/row\?key=59",
        ("Deleted", "erasure"),
    ),
    Question(
        "Show 20 rows where city is X",
        (find("trips"), rail("Data"), Typed("#where", "city = 'Oslo'")),
        r"/t/trips/data\?where=city",
        ("20 rows", "Oslo"),
    ),
    Question(
        "What did this commit change?",
        (find("{instant}"), 'a:has-text("Show changes")'),
        r"/t/trips/data/changes/\d{17}$",
        ("1 deleted", "File groups"),
    ),
    Question(
        "Which tables breach their freshness target?",
        ('.needs-figures div:has-text("Late tables") a',),
        r"/tables/\?show=late",
        ("weather",),
    ),
    Question(
        "What runs, and what waits for what?",
        (rail("Operations"),),
        r"/operations$",
        ("running", "backfill-b"),
    ),
    Question(
        "How big is each table, and when was it last compacted?",
        (rail("Tables"),),
        r"/tables/$",
        ("Since compaction", "Size", "fares"),
    ),
    Question(
        "What did this person do yesterday?",
        (*AUDIT, Typed("[name=who]", "ada", is_sent=False), 'button:has-text("Yesterday")'),
        r"/audit\?who=ada&since=",
        ("Audit rows",),
    ),
)
"""The ten of the document."""
MORE = (
    Question(
        "Who holds the lock, and who waits?",
        (find("contested"), rail("Locks")),
        r"/t/contested/locks$",
        ("lock",),
    ),
    Question(
        "Which writer is dead, and what did it leave?",
        (find("ad-requests"), rail("Writers")),
        r"/t/ad-requests/writers$",
        ("late-loader", "expired", "marker"),
    ),
    Question(
        "Whom does this sink wait for?",
        (find("orders"), rail("Sinks"), 'a[href*="sink=orders-in"]'),
        r"/t/orders/sinks\?sink=orders-in",
        ("missing", "worker"),
    ),
    Question(
        "What is failing anywhere, and since when?",
        (rail("Alerts"),),
        r"/alerts$",
        ("since", "weather"),
    ),
)
QUESTIONS = (*ASKED, *MORE)


def walk_question(page: Page, url: str, question: Question, *, instant: str) -> None:
    """Walk the way from Home and read the answer. `instant` is the commit that is asked about."""
    page.goto(f"{url}/")

    for step in question.steps:
        if isinstance(step, Typed):
            page.fill(step.field, step.text.format(instant=instant))
            if step.is_sent:
                page.press(step.field, "Enter")
        else:
            page.locator(step).first.click()

    expect(page).to_have_url(re.compile(question.address))
    seen_parts = page.locator("main :not(option, .as-curl-body, .as-curl-body *)")
    for words in question.answer:
        expect(seen_parts.filter(has_text=words).last).to_be_visible(timeout=60_000)


@pytest.fixture(scope="module")
def delete_instant(site: Site) -> str:
    """The instant at which a row of the small table was deleted."""
    site.change("delete_row", table="trips", key=59, city="Narvik", writer="erasure")
    return str(site.change("newest_commit", table="trips"))


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.words)
def test_question_is_answered_within_three_clicks_from_home(
    question: Question, page: Page, site: Site, seen: Seen, delete_instant: str
) -> None:
    site.change("beats")

    walk_question(page, site.url, question, instant=delete_instant)

    assert seen.console == []


def test_document_lists_these_questions_and_no_others() -> None:
    listed = re.findall(r"^\| ([A-Z][^|]+) \| \d \| ", DOCUMENT.read_text(), re.MULTILINE)

    assert listed == [question.words for question in QUESTIONS]
    assert len(ASKED) == 10
    assert all(question.clicks <= CLICKS_MAX for question in QUESTIONS)
