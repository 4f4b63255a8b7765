"""Times and queries that a reader may ask for, and those that could mean two things."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from workers.errors import InvalidInput
from workers.read.request import EARLIEST, Query, moment, read_request

INSTANT = "20260131120000007"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (INSTANT, INSTANT),
        ("2026-01-31T12:00:00.007Z", INSTANT),
        ("2026-01-31T14:00:00.007+02:00", INSTANT),
        (datetime(2026, 1, 31, 12, 0, 0, 7_000, UTC), INSTANT),
        (datetime(2026, 1, 31, 7, 0, 0, 7_999, timezone(timedelta(hours=-5))), INSTANT),
        ("earliest", EARLIEST),
        ("000", EARLIEST),
    ],
)
def test_moment_is_read(given: Any, expected: str) -> None:
    assert moment(given) == expected


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("20260131120000", "17 digits"),
        ("20269931120000007", "no date"),
        ("2026-01-31T12:00:00", "no zone"),
        ("2026-01-31", "no zone"),
        (datetime(2026, 1, 31, tzinfo=None), "no zone"),  # noqa: DTZ001
        ("yesterday", "ISO 8601"),
        ("", "ISO 8601"),
        (20260131120000007, "text or a datetime"),
    ],
)
def test_moment_that_could_mean_several_is_refused(given: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        moment(given)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"query": "cdc"}, "need since"),
        ({"query": "incremental"}, "need since"),
        ({"since": INSTANT, "as_of": INSTANT}, "not as_of"),
        ({"until": INSTANT}, "not since or until"),
        ({"query": "read_optimized", "since": INSTANT}, "not since or until"),
        ({"since": INSTANT, "until": "earliest"}, "before since"),
        ({"query": "snap"}, "unknown query"),
        ({"columns": "id"}, "list of names"),
        ({"columns": []}, "must be named"),
        ({"columns": ["id", "id"]}, "each once"),
    ],
)
def test_request_that_contradicts_itself_is_refused(given: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        read_request(**given)


def test_since_alone_means_an_incremental_read() -> None:
    assert read_request(since=INSTANT).query is Query.INCREMENTAL
    assert read_request().query is Query.SNAPSHOT
