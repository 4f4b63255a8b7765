"""Queries that people keep: their own, and those that others share within a namespace."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.http import Http404

from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest
from controlplane.sql.models import NAME_CHARS_MAX, NOTE_CHARS_MAX, SavedQuery
from controlplane.tables.access import Permission, may_in_namespace, visible_tables
from workers.sql.checking.limits import CHARACTERS_MAX

SAVED_MAX = 200
"""Of one person."""
SHOWN_MAX = 500
SAVE, DELETE = "query.save", "query.delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedQueryRow:
    """A query that somebody keeps."""

    id: int
    name: str
    statement: str
    note: str
    namespace: str
    """Whoever sees a table of it sees the query; empty for the owner's alone."""
    owner: str
    is_own: bool
    """Its owner alone changes it; an admin of its namespace may delete it as well."""
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWords:
    """What somebody says of a query."""

    name: str
    statement: str
    note: str = ""
    namespace: str = ""


def saved_queries(user: User) -> list[SavedQueryRow]:
    """His own and those shared with him, by name; 500 at most."""
    rows = _visible(user).select_related("owner").order_by("name", "pk")[:SHOWN_MAX]
    return [_row(query, user) for query in rows]


def saved_query(user: User, query_id: int) -> SavedQueryRow:
    """The query. Raises Http404 for one that there is not or that he does not see, alike."""
    return _row(_query(user, query_id), user)


def namespaces_of(user: User) -> list[str]:
    """Those in which he sees a table, and so may share."""
    return sorted(set(visible_tables(user).values_list("namespace", flat=True)))


def do_save_query(words: QueryWords, *, by: User) -> SavedQueryRow:
    """Keep one more query. Raises InvalidRequest, which names the field."""
    _check(words, by)
    if SavedQuery.objects.filter(owner=by).count() >= SAVED_MAX:
        raise InvalidRequest(f"you already have {SAVED_MAX} saved queries: delete a query first")
    return _stored(SavedQuery(owner=by), words, by)


def do_change_query(query_id: int, words: QueryWords, *, by: User) -> SavedQueryRow:
    """The changed query. Raises Http404, PermissionDenied for another's, InvalidRequest."""
    query = _query(by, query_id)
    if query.owner_id != by.pk:
        raise PermissionDenied("only the owner can change a query: save it under another name")
    _check(words, by)
    return _stored(query, words, by)


def do_delete_query(query_id: int, *, by: User) -> None:
    """Deletes it. Raises Http404, PermissionDenied for another's in a namespace of other admins."""
    query = _query(by, query_id)
    if query.owner_id != by.pk and not may_in_namespace(by, Permission.ADMINISTER, query.namespace):
        raise PermissionDenied(
            "only the owner or an admin of its namespace can delete a shared query"
        )
    details = {"name": query.name, "owner": query.owner.get_username()}
    query.delete()
    do_record(who=by.get_username(), what=DELETE, subject="queries", result="done", details=details)


def _visible(user: User) -> QuerySet[SavedQuery]:
    shared = visible_tables(user).values("namespace")
    return SavedQuery.objects.filter(Q(owner=user) | Q(namespace__in=shared) & ~Q(namespace=""))


def _query(user: User, query_id: int) -> SavedQuery:
    query = _visible(user).select_related("owner").filter(pk=query_id).first()
    if query is None:
        raise Http404(f"query {query_id} not found")
    return query


def _check(words: QueryWords, by: User) -> None:
    for field, text, most in (
        ("name", words.name, NAME_CHARS_MAX),
        ("statement", words.statement, CHARACTERS_MAX),
        ("note", words.note, NOTE_CHARS_MAX),
    ):
        if len(text) > most:
            raise InvalidRequest(f"the {field} must have fewer than {most} characters", field=field)
        if field != "note" and not text.strip():
            raise InvalidRequest(f"a query requires a {field}", field=field)
    if words.namespace and words.namespace not in namespaces_of(by):
        raise InvalidRequest(
            "a query can be shared only in a namespace where you see a table",
            field="namespace",
            namespace=words.namespace[:64],
        )


def _stored(query: SavedQuery, words: QueryWords, by: User) -> SavedQueryRow:
    query.name, query.statement = words.name.strip(), words.statement.strip()
    query.note, query.namespace = words.note.strip(), words.namespace
    try:
        with transaction.atomic():
            query.save()
            do_record(
                who=by.get_username(),
                what=SAVE,
                subject="queries",
                result="done",
                details={"name": query.name, "namespace": query.namespace},
            )
    except IntegrityError as error:
        raise InvalidRequest(
            "you already have a query with this name", field="name", name=query.name
        ) from error
    return _row(query, by)


def _row(query: SavedQuery, user: User) -> SavedQueryRow:
    return SavedQueryRow(
        id=query.pk,
        name=query.name,
        statement=query.statement,
        note=query.note,
        namespace=query.namespace,
        owner=query.owner.get_username(),
        is_own=query.owner_id == user.pk,
        changed_at=query.changed_at,
    )
