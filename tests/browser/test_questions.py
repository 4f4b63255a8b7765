"""The ten questions of docs/dashboard-questions.md: each is answered within three clicks."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Seen, Site
from tests.browser.serving import ROOT

pytestmark = pytest.mark.browser

CLICKS_MAX = 3
DOCUMENT = ROOT / "docs/dashboard-questions.md"


@dataclass(frozen=True, slots=True)
class Question:
    words: str
    start: str
    clicks: tuple[str, ...]
    """Selectors; `#field=text` types."""
    address: str
    """A pattern of the page that answers."""
    answer: tuple[str, ...]
    """What stands on it."""


def rail(title: str) -> str:
    return f'.rail a:has-text("{title}")'


QUESTIONS = (
    Question(
        "Which writer lost last night, and why?",
        "/t/contested/",
        (rail("Conflicts"), '.conflict-list tr:has-text("nightly-backfill") a.row-link'),
        r"/t/contested/conflicts/\d{17}$",
        ("nightly-backfill", "fares-ingest", "file group"),
    ),
    Question(
        "What would this rollback delete?",
        "/t/trips/",
        (rail("Rollback"), 'a[aria-label^="Plan rollback"]'),
        r"/t/trips/rollback/\d{17}$",
        (".parquet",),
    ),
    Question(
        "Which stream is late, and since when?",
        "/t/ad-join/",
        (rail("Streams"),),
        r"/t/ad-join/streams$",
        ("Event lag", "impression", "ago"),
    ),
    Question(
        "Who deleted this row, and when?",
        "/t/ad-join/",
        (rail("Streams"), "#why-key=r00-02", 'button:has-text("Explain")'),
        r"/t/ad-join/streams\?.*key=r00-02",
        ("r00-02", "Since"),
    ),
    Question(
        "Who holds the lock, and who waits?",
        "/t/contested/",
        (rail("Locks"),),
        r"/t/contested/locks$",
        ("lock",),
    ),
    Question(
        "Which writer is dead, and what did it leave?",
        "/t/ad-requests/",
        (rail("Writers"),),
        r"/t/ad-requests/writers$",
        ("late-loader", "expired", "marker"),
    ),
    Question(
        "Whom does this sink wait for?",
        "/t/orders/",
        (rail("Sinks"), 'a[href*="sink=orders-in"]'),
        r"/t/orders/sinks\?sink=orders-in",
        ("missing", "worker"),
    ),
    Question(
        "What runs now over all tables, and what does it wait for?",
        "/t/fares/",
        (rail("Operations"),),
        r"/operations$",
        ("running", "backfill-b"),
    ),
    Question(
        "Who did this, and for what reason?",
        "/t/fares/",
        ('.rail summary:has-text("Administration")', rail("Audit"), ".audit-list a.row-link"),
        r"/audit/\d+$",
        ("ada",),
    ),
    Question(
        "What is failing anywhere, and since when?",
        "/t/fares/",
        (rail("Alerts"),),
        r"/alerts$",
        ("since", "weather"),
    ),
)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.words)
def test_question_is_answered_within_three_clicks(
    question: Question, page: Page, site: Site, seen: Seen
) -> None:
    site.change("beats")
    page.goto(site.url + question.start)

    for step in question.clicks:
        selector, equals, text = step.partition("=") if step.startswith("#") else (step, "", "")
        if equals:
            page.fill(selector, text)
        else:
            page.locator(selector).first.click()

    expect(page).to_have_url(re.compile(question.address))
    seen_parts = page.locator("main :not(option, .as-curl-body, .as-curl-body *)")
    for words in question.answer:
        expect(seen_parts.filter(has_text=words).last).to_be_visible()
    assert seen.console == []


def test_document_lists_these_questions_and_no_others() -> None:
    listed = re.findall(r"^\| ([^|]+\?) \| ", DOCUMENT.read_text(), re.MULTILINE)

    assert listed == [question.words for question in QUESTIONS]
    assert len(listed) == 10
    assert all(len(question.clicks) <= CLICKS_MAX for question in QUESTIONS)
