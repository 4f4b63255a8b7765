"""Threats T21, T22, T23: what people type into filters, searches and orders is compared as text. It
is no pattern, no name of a column and no expression.
"""

from __future__ import annotations

import ast
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.support.counted_calls import count_calls
from tests.support.sampling import WHOLE
from tests.web.conftest import fill

ROOT = Path(__file__).resolve().parents[2]
CHANCE = random.Random(os.environ["SLUICE_TEST_SEED"])
CALLS_MORE_MAX = 100_000
CALLS_PER_CHARACTER = 20
"""More than a harmless text makes. A pattern that tries again for ever meets the time limit of a
test.
"""
COUNT = 2_500
EVIL = (
    *(f"({inner}){end}" for inner in ("a+", "a*", "a|a", "a|aa", ".*", "[a-z]+", "\\w+", "a?")
      for end in ("+$", "*!", "{1,99}x", "+b")),
    *(letter * COUNT for letter in ("a", " ", "%", "_", "\\", "(", "[", "*", "-", "0", ".", "/")),
    "a" * COUNT + "!", "=" * COUNT, "a@" * COUNT, "%25" * COUNT, "\u0130" * COUNT, "\ufdfa" * COUNT,
)  # fmt: skip
"""Fifty patterns and texts on which a matcher that tries again takes for ever."""
INJECTED = (
    "password",
    "-password",
    "requested_by__password",
    "table__operations__requested_by__password",
    "pk__gt",
    "id) OR 1=1 --",
    "1; DROP TABLE auth_user",
    "' OR '1'='1",
    '" OR "1"="1',
    'a" AS b--',
    "x) UNION SELECT password FROM auth_user --",
    "?",
    "__class__",
    "{}",
    "%s",
    "%(x)s",
    "_state",
    "RawSQL('1')",
    "location__regex",
    "slug__iregex",
    "\0",
    "a\0b",
    "'; ATTACH DATABASE '/x' AS y --",
    "crafted.alias",
    "a b",
    "a--b",
    "a/*b*/",
    "sqlite_master",
    "pg_sleep(5)",
    "*",
    "-",
    "--",
)
PAGES: dict[str, tuple[str, ...]] = {
    "/": ("q", "namespace", "cursor", "sort", "order", "page"),
    "/operations": ("q", "table", "kind", "state", "who", "sort", "cursor", "since"),
    "/t/ads/conflicts": ("writer", "kind", "q", "sort", "cursor"),
    "/t/ads/files": ("q", "partition", "sort", "order", "cursor"),
    "/t/ads/timeline": ("sel", "by", "from", "until"),
    "/audit": ("who", "what", "q", "since", "until", "cursor", "sort"),
}


def questions_of(client: Client) -> Iterator[tuple[str, str]]:
    """Every (address, parameter of its query) that reads something."""
    document: dict[str, Any] = client.get("/api/v1/schema/?format=json").json()
    for path, methods in document["paths"].items():
        address = path.replace("{slug}", "ads")
        is_stream = address.endswith("/events/")  # Without Redis there is none.
        if "{" not in address and "get" in methods and not is_stream:
            for parameter in methods["get"].get("parameters", ()):
                if parameter["in"] == "query":
                    yield address, parameter["name"]
            yield address, "ordering"
    for page, names in PAGES.items():
        yield from ((page, name) for name in names)


@pytest.fixture
def questions(admin: User, as_admin: Client) -> list[tuple[str, str]]:
    fill("ads", admin)
    all_questions = list(questions_of(as_admin))
    assert len(all_questions) > 80
    return all_questions


@pytest.mark.slow
def test_no_text_makes_a_filter_slow(questions: list[tuple[str, str]], as_admin: Client) -> None:
    tried = [(address, name, text) for address, name in questions for text in EVIL]
    chosen = tried if os.environ.get(WHOLE) else CHANCE.sample(tried, 40)

    for address, name, text in chosen:
        plain = _calls_of(as_admin, address, {name: "a"})
        calls_max = plain + CALLS_MORE_MAX + CALLS_PER_CHARACTER * len(text)
        _calls_of(as_admin, address, {name: text}, calls_max=calls_max)

    assert len(EVIL) >= 50


def _calls_of(
    client: Client, address: str, words: dict[str, str], *, calls_max: int | None = None
) -> int:
    """Return how many function calls the request makes. Raises TooManyCalls."""
    question = f"{address}?{urlencode(words)}"
    answer, calls = count_calls(lambda: client.get(question), calls_max=calls_max)
    assert answer.status_code < 500, (address, words)
    return calls


def test_no_text_names_a_column_or_becomes_sql(
    questions: list[tuple[str, str]], admin: User, as_admin: Client
) -> None:
    tried = [(address, name, text) for address, name in questions for text in INJECTED]
    tried += [(address, text, "1") for address, _ in questions for text in INJECTED]
    chosen = tried if os.environ.get(WHOLE) else CHANCE.sample(tried, 80)

    wrong = []
    for address, name, text in chosen:
        answer = as_admin.get(f"{address}?{urlencode({name: text})}")
        body = b"".join(answer) if answer.streaming else answer.content
        if answer.status_code >= 500 or admin.password.encode() in body:
            wrong.append((address, name, text, answer.status_code))

    assert wrong == []
    assert User.objects.filter(pk=admin.pk).exists()


def trees(says: str) -> Iterator[tuple[Path, ast.Module]]:
    """Modules whose text has this; to parse all takes long."""
    for tree in ("controlplane", "web", "workers"):
        for path in sorted((ROOT / tree).rglob("*.py")):
            if says in (text := path.read_text(encoding="utf-8")):
                yield path.relative_to(ROOT), ast.parse(text)


def calls(of: set[str], *, says: str) -> Iterator[tuple[Path, str, ast.Call]]:
    for path, module in trees(says):
        for node in ast.walk(module):
            if isinstance(node, ast.Call):
                function = node.func
                name = getattr(function, "attr", getattr(function, "id", ""))
                if name in of:
                    yield path, name, node


def test_no_pattern_is_made_of_what_somebody_typed() -> None:
    """Every pattern stands in the code, or is put together of what stands there."""
    made_elsewhere = {
        "workers/masking.py",  # Of escaped words.
        "controlplane/tables/messages.py",  # Of the patterns in its own table of causes.
    }
    dynamic = {
        str(path)
        for path, name, call in calls(
            {"compile", "fullmatch", "search", "sub", "findall", "finditer"}, says="import re\n"
        )
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "re"
        and call.args
        and isinstance(call.args[0], ast.Name | ast.Attribute | ast.Call)
        and not (isinstance(call.args[0], ast.Name) and call.args[0].id.lstrip("_").isupper())
    }
    lookups = {
        str(path) for path, module in trees("regex") for node in ast.walk(module)
        if isinstance(node, ast.keyword) and node.arg and node.arg.endswith("regex")
    }  # fmt: skip

    assert dynamic <= made_elsewhere
    assert lookups == set()


KEYS_OF_OUR_OWN = {
    "controlplane/audit/queries.py",
    "controlplane/home/hours.py",
    "controlplane/mirror/apply.py",
    "controlplane/mirror/applying.py",
    "controlplane/mirror/queries/file_stats.py",
    "controlplane/mirror/queries/health.py",
    "controlplane/mirror/queries/table_services.py",
    "controlplane/mirror/repairing.py",
    "controlplane/mirror/turns.py",
    "controlplane/node/management/commands/sink.py",
    "controlplane/operations/approvals/queries.py",
    "controlplane/operations/approvals/rules.py",
    "controlplane/operations/table_changes/hanging.py",
    "controlplane/operations/write_outcomes.py",
    "controlplane/paging.py",
    "controlplane/tables/grants.py",
    "controlplane/tables/listing.py",
    "controlplane/tables/queries.py",
    "controlplane/tables/row_grants.py",
    "controlplane/writers/queries.py",
}
"""Where a dictionary becomes arguments of a query: each one's keys stand in the code."""
QUERIES = {"filter", "exclude", "annotate", "alias", "aggregate", "values", "values_list",
           "order_by", "extra", "raw", "update", "get_or_create"}  # fmt: skip


def test_no_key_of_a_request_becomes_an_argument_of_a_query() -> None:
    expanded = {
        str(path)
        for path, _, call in calls(QUERIES, says="(**")
        if any(keyword.arg is None for keyword in call.keywords)
        and str(path).startswith(("controlplane", "web"))
    }
    raw = {
        str(path) for path, _, _ in calls({"raw", "RawSQL"}, says="raw")
        if str(path).startswith(("controlplane", "web"))
    }  # fmt: skip

    assert expanded - KEYS_OF_OUR_OWN == set()
    assert raw == set()


def test_nothing_evaluates_an_expression() -> None:
    """T23: there is no language of filters; whoever brings one brings its grammar here."""
    evaluated = [
        str(path) for word in ("eval(", "exec(")
        for path, name, call in calls({"eval", "exec", "literal_eval"}, says=word)
        if isinstance(call.func, ast.Name) or name == "literal_eval"
    ]  # fmt: skip

    assert evaluated == []
