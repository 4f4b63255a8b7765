"""What a reader asks for, checked before anything is read: the kind of query, its times, its
columns.

All times are completion times: a checkpoint then never skips a commit that began early and ended
late (bug A6).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from workers.clock import InstantTime, format_instant, parse_instant
from workers.errors import InvalidInput, MalformedTable

Moment = str | datetime
"""A point in time as `moment` takes it."""
EARLIEST: InstantTime = "0" * 17
"""Before every commit."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Query(StrEnum):
    """The kinds of read, by the name that callers write."""

    SNAPSHOT = "snapshot"
    READ_OPTIMIZED = "read_optimized"
    INCREMENTAL = "incremental"
    CDC = "cdc"

    @property
    def has_window(self) -> bool:
        """Whether it goes from one time to another, rather than being of one time."""
        return self in (Query.INCREMENTAL, Query.CDC)


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A read that `read_request` checked. Times are completion times."""

    query: Query = Query.SNAPSHOT
    as_of: InstantTime | None = None
    since: InstantTime = EARLIEST
    """Exclusive; for windows only."""
    until: InstantTime | None = None
    """Inclusive; None is now."""
    columns: tuple[str, ...] | None = None
    """In this order; None is every column of the table. Meta columns are given when named."""


def read_request(
    *,
    query: str = Query.SNAPSHOT,
    as_of: object = None,
    since: object = None,
    until: object = None,
    columns: Iterable[str] | None = None,
) -> ReadRequest:
    """The checked request for what `read` was asked. Raises InvalidInput for times that do not go
    with the query, naming what does.
    """
    kind = _query(query, since)
    if kind.has_window:
        if as_of is not None:
            raise InvalidInput(f"{kind} reads take since and until, not as_of", as_of=as_of)
        if since is None:
            raise InvalidInput(f"{kind} reads need since: a completion time, or 'earliest'")
    elif since is not None or until is not None:
        raise InvalidInput(f"{kind} reads take as_of, not since or until", since=since, until=until)
    request = ReadRequest(
        kind,
        as_of=None if as_of is None else moment(as_of),
        since=EARLIEST if since is None else moment(since),
        until=None if until is None else moment(until),
        columns=None if columns is None else _columns(columns),
    )
    if request.until is not None and request.until < request.since:
        raise InvalidInput("until lies before since", since=request.since, until=request.until)
    return request


def check_columns(wanted: tuple[str, ...], known: list[str]) -> None:
    """Check that all wanted columns are known. Raises InvalidInput naming the first column that
    there is not.
    """
    known_names = set(known)
    if unknown := [name for name in wanted if name not in known_names]:
        raise InvalidInput("table has no such column", column=unknown[0], known=known)


def moment(given: object) -> InstantTime:
    """An instant of 17 digits, an ISO text or a datetime with its zone, or 'earliest'.

    Raises InvalidInput for anything that could mean two moments.
    """
    if isinstance(given, datetime):
        return _of_datetime(given)
    if not isinstance(given, str):
        raise InvalidInput("a time is text or a datetime", given=given, type=type(given).__name__)
    text = given.strip()
    if text.lower() == "earliest" or (text and set(text) == {"0"}):
        return EARLIEST
    if text.isdigit():
        return _of_digits(text)
    try:
        return _of_datetime(datetime.fromisoformat(text))
    except ValueError as error:
        raise InvalidInput(
            "a time is 17 digits or ISO 8601 with a zone, such as 2026-01-31T12:00:00Z", given=given
        ) from error


def _query(text: str, since: object) -> Query:
    try:
        kind = Query(str(text).lower())
    except ValueError as error:
        known = [one.value for one in Query]
        raise InvalidInput("unknown query", given=text, known=known) from error
    # `read(since=…)` alone can mean nothing but an incremental read.
    return Query.INCREMENTAL if kind is Query.SNAPSHOT and since is not None else kind


def _columns(given: Iterable[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        raise InvalidInput("columns is a list of names", given=given)
    columns = tuple(given)
    if not columns or len(set(columns)) < len(columns):
        raise InvalidInput("columns must be named, each once", columns=columns)
    return columns


def _of_digits(text: str) -> InstantTime:
    if len(text) != len(EARLIEST):
        # Fourteen digits name a whole second, in which many commits may have completed.
        raise InvalidInput("an instant time has 17 digits, down to the millisecond", given=text)
    try:
        parse_instant(text)
    except MalformedTable as error:
        raise InvalidInput("instant time is no date", given=text) from error
    return text


def _of_datetime(given: datetime) -> InstantTime:
    if given.tzinfo is None:
        raise InvalidInput("time has no zone: add one, such as Z for UTC", given=given.isoformat())
    since_epoch = given - _EPOCH
    return format_instant(
        (since_epoch.days * 86_400 + since_epoch.seconds) * 1000 + since_epoch.microseconds // 1000
    )
