"""304 before the answer is made: as long as the answer would be the same, and not a moment longer.

With SQLite answers carry a digest of themselves, and all of this holds, too. Only PostgreSQL can
answer without making the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, models, transaction
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.accounts.tokens import create_token
from controlplane.api import known_answers
from controlplane.api.v1 import timeline
from controlplane.mirror.models import InstantRecord, UndoneRecord
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from tests.support.sampling import examples
from workers.clock import format_instant

FIRST_MS = 1_767_225_600_000
STAND, GONE = 8, 4
LIST = "/api/v1/tables/t/instants/"
SHOWN = (
    *(LIST, f"{LIST}?limit=2&fields=requested_at,state", f"{LIST}?states=conflicted"),
    f"{LIST}?actions=commit,clean&archived=false&limit=2",
    f"{LIST}?since={format_instant(FIRST_MS + 3_000)}&until={format_instant(FIRST_MS + 6_000)}",
    f"{LIST}?limit=2&cursor={format_instant(FIRST_MS + 5_000)}.commit",
)
MODELS: tuple[type[models.Model], ...] = (InstantRecord, UndoneRecord, Conflict)
_IDENTITY = {"id", "table"}


def _fields() -> list[tuple[type[models.Model], str]]:
    return [
        (model, field.name)
        for model in MODELS
        for field in model._meta.concrete_fields
        if field.name not in _IDENTITY
    ]


def _filled(slug: str = "t") -> Table:
    table = Table.objects.create(slug=slug, name=slug, location=f"/{slug}")
    InstantRecord.objects.bulk_create(_instant(table, number) for number in range(STAND))
    UndoneRecord.objects.bulk_create(_undone(table, number) for number in range(GONE))
    Conflict.objects.bulk_create(_conflict(table, number) for number in range(0, GONE, 2))
    return table


def _at(number: int) -> str:
    return format_instant(FIRST_MS + number * 1_000)


def _instant(table: Table, number: int) -> InstantRecord:
    return InstantRecord(
        table=table,
        requested_at=_at(number),
        action="clean" if number % 3 == 0 else "commit",
        state="completed",
        completed_at=_at(number + 1),
        rows=number,
        is_archived=number < 3,
    )


def _undone(table: Table, number: int) -> UndoneRecord:
    at = format_instant(FIRST_MS + number * 1_500 + 7)
    return UndoneRecord(table=table, requested_at=at, action="commit", ended_at=_at(number + 2))


def _conflict(table: Table, number: int) -> Conflict:
    at = format_instant(FIRST_MS + number * 1_500 + 7)
    return Conflict(
        table=table, loser_instant=at, kind="write", decided_at="2026-01-01T00:00:00+00:00"
    )


@pytest.fixture
def reader(client: Client, viewer: User) -> Client:
    client.force_login(viewer)
    _filled()
    return client


def _ask(reader: Client, address: str, etag: str | None = None) -> Any:
    return reader.get(address, headers={} if etag is None else {"If-None-Match": etag})


def _changed_rightly(reader: Client, change: Callable[[], object]) -> None:
    """Of all lists: whoever has an answer from before is sent the new one where it differs, and its
    tag is that of the new one.
    """
    before = {address: _ask(reader, address) for address in SHOWN}
    change()
    for address, known in before.items():
        again, anew = _ask(reader, address, known["ETag"]), _ask(reader, address)
        if anew.content != known.content:
            assert (again.status_code, again.content) == (200, anew.content), address
            assert known["ETag"] != again["ETag"] == anew["ETag"], address
        else:
            assert again.status_code == 304 or again.content == anew.content, address


def _other(field: models.Field[Any, Any], number: int) -> Any:
    """A value that no row of `_filled` has."""
    if isinstance(field, models.BooleanField):
        return number % 2 == 0
    if isinstance(field, models.IntegerField):
        return 10_000 + number
    if isinstance(field, models.JSONField):
        return {"changed": number}
    if isinstance(field, models.DateTimeField):
        return f"2027-01-01T00:00:{number % 60:02}+00:00"
    if field.name.endswith(("_at", "_instant", "_by")):
        return _at(100 + number)
    return {"state": "completed", "action": "clustering"}.get(field.name, f"other {number}")


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize(("model", "name"), _fields())
def test_each_column_of_each_model_behind_the_list_is_seen_to_change(
    reader: Client, model: type[models.Model], name: str
) -> None:
    field: Any = model._meta.get_field(name)
    rows = model._default_manager.order_by("pk")
    last = model._default_manager.filter(pk=rows.reverse()[0].pk)

    _changed_rightly(reader, lambda: last.update(**{name: _other(field, 0)}))


_CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["update", "delete", "insert"]),
        st.sampled_from(_fields()),
        st.integers(0, STAND + GONE),
    ),
    min_size=1,
    max_size=4,
)


def test_whatever_happens_to_the_rows_nobody_is_sent_away_with_an_old_list(reader: Client) -> None:
    table = Table.objects.get(slug="t")

    @settings(max_examples=examples(9), deadline=None)
    @given(_CHANGES)
    def holds(made: list[tuple[str, tuple[type[models.Model], str], int]]) -> None:
        with transaction.atomic():
            for number, (kind, (model, name), place) in enumerate(made):
                change = partial(_change, table, kind, model, name, 20 * number + place)
                _changed_rightly(reader, change)
            transaction.set_rollback(True)

    holds()


def _change(table: Table, kind: str, model: type[models.Model], name: str, number: int) -> None:
    rows = model._default_manager.order_by("pk")
    row = rows[number % len(rows) : number % len(rows) + 1]
    makers = {InstantRecord: _instant, UndoneRecord: _undone, Conflict: _conflict}
    if kind == "insert":
        makers[model](table, 200 + number).save()
    elif row and kind == "delete":
        row[0].delete()
    elif row:
        field: Any = model._meta.get_field(name)
        changed = model._default_manager.filter(pk=row[0].pk)
        changed.update(**{name: _other(field, number)})


def test_a_tag_holds_for_its_address_alone(reader: Client) -> None:
    _filled("u")
    tags = {address: _ask(reader, address)["ETag"] for address in SHOWN}
    elsewhere = LIST.replace("/t/", "/u/")

    crossed = [
        (address, other)
        for address in SHOWN
        for other in SHOWN
        if address != other
        and _ask(reader, address, tags[other]).status_code == 304
        and _ask(reader, address).content != _ask(reader, other).content
    ]

    assert crossed == []
    if connection.vendor == "postgresql":
        assert _ask(reader, elsewhere, tags[LIST]).status_code == 200


def test_a_tag_holds_for_its_program_alone(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    if connection.vendor != "postgresql":
        return  # There the tag is of the answer.
    etag = _ask(reader, LIST)["ETag"]

    monkeypatch.setattr(known_answers, "program", lambda: "another one")

    assert _ask(reader, LIST, etag).status_code == 200


def test_all_tags_of_a_header_count_and_a_star_is_any(reader: Client) -> None:
    etag = _ask(reader, LIST)["ETag"]

    listed = _ask(reader, LIST, f'"x", {etag}, W/"y"')
    strong = _ask(reader, LIST, etag.removeprefix("W/"))
    star = _ask(reader, LIST, "*")
    other = _ask(reader, LIST, 'W/"x"')

    answers = (listed, strong, star, other)
    assert [answer.status_code for answer in answers] == [304, 304, 304, 200]
    assert {answer["ETag"] for answer in answers} == {etag}
    assert {answer["Cache-Control"] for answer in answers} == {"private, no-cache"}


def test_a_known_list_is_neither_read_nor_made(
    reader: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connection.vendor != "postgresql":
        return  # Nothing there says what rows are without sending them.
    etag = _ask(reader, LIST)["ETag"]
    monkeypatch.setattr(timeline, "timeline_page", lambda *_: pytest.fail("it was made"))

    statements: list[str] = []

    def noted(execute: Callable[..., object], sql: str, *arguments: object) -> object:
        statements.append(sql)
        return execute(sql, *arguments)

    with connection.execute_wrapper(noted):
        again = _ask(reader, LIST, etag)

    assert again.status_code == 304
    assert len([sql for sql in statements if "mirror_instantrecord" in sql]) == 1


def test_a_tag_opens_nothing_to_a_token_that_was_revoked_or_whose_owner_lost_his_role(
    reader: Client, viewer: User, client: Client
) -> None:
    token, secret = create_token(viewer, scope="read")
    client.logout()
    header = {"Authorization": f"Token {secret}"}
    known = {**header, "If-None-Match": client.get(LIST, headers=header)["ETag"]}
    held = client.get(LIST, headers=known).status_code

    viewer.groups.clear()
    without_role = client.get(LIST, headers=known)
    viewer.groups.add(Group.objects.get(name="viewer"))
    again = client.get(LIST, headers=known).status_code
    viewer.is_active = False
    viewer.save()
    inactive = client.get(LIST, headers=known).status_code
    viewer.is_active = True
    viewer.save()
    token.delete()
    revoked = client.get(LIST, headers=known)

    assert (held, without_role.status_code, again) == (304, 403, 304)
    assert (inactive, revoked.status_code) == (401, 401)
    assert not without_role.has_header("ETag")
    assert not revoked.has_header("ETag")
