"""What somebody may hear: asked when a stream begins, and every `LOOK_AGAIN_S` while it lasts.

Streams of one person, or token, that listen to the same share these looks.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from weakref import WeakValueDictionary

from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import PermissionDenied
from django.db import connections
from django.http import Http404
from django.utils import timezone

from controlplane.accounts.models import Token
from controlplane.accounts.roles import limit_to_token
from controlplane.events import EVERYWHERE
from controlplane.tables.access import (
    Caller,
    Permission,
    access_table,
    may_everywhere,
    may_see_some,
    visible_tables,
)

LOOK_AGAIN_S = 10.0
"""A role that was taken away is heard with for no longer than this and a ping."""


@dataclass(frozen=True, slots=True)
class Listener:
    """Who listens, and to what."""

    user_key: int
    token: str = ""
    """The digest of the token that he came with; empty for a session."""
    slug: str = ""
    """Of one table; empty for all that he sees."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What a stream listens to."""

    topics: frozenset[str] = frozenset()
    is_all: bool = False
    """Every topic there is."""


def watched_by(listener: Listener) -> Watched:
    """What he may listen to now.

    Raises PermissionDenied for whoever may see nothing; Http404 for a table that he may not see.
    """
    caller = _caller(listener)
    if listener.slug:
        access_table(caller, listener.slug, Permission.VIEW)
        return Watched(frozenset({listener.slug, EVERYWHERE}))
    if may_everywhere(caller, Permission.VIEW):
        return Watched(is_all=True)
    if not may_see_some(caller):
        raise PermissionDenied("this requires the viewer role")
    slugs = visible_tables(caller).values_list("slug", flat=True)
    return Watched(frozenset({*slugs, EVERYWHERE}))


def give_back_connections() -> None:
    """Give the connections of this thread back to the database. Django does so when an answer ends,
    and a stream lasts: as many streams as the pool has connections would stop all others.
    """
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()


def _caller(listener: Listener) -> Caller:
    """As the database knows this person and token now; anonymous where one of them is gone."""
    user = User.objects.filter(pk=listener.user_key).first()
    if user is None:
        return AnonymousUser()
    if listener.token:
        token = Token.objects.filter(pk=listener.token, user=user).first()
        if token is None or (token.expiry is not None and token.expiry < timezone.now()):
            return AnonymousUser()
        limit_to_token(user, token.limits)
    return user


class Watch:
    """Whether a listener may still hear what he hears, for all of his streams at once."""

    def __init__(self, listener: Listener, watched: Watched) -> None:
        self.watched = watched
        self._listener = listener
        self._looked_at = asyncio.get_running_loop().time()
        self._holds = True

    async def holds(self) -> bool:
        """Looks where that was long ago; whoever asks meanwhile gets the last answer."""
        now = asyncio.get_running_loop().time()
        if self._holds and now - self._looked_at >= LOOK_AGAIN_S:
            self._looked_at = now
            self._holds = await sync_to_async(self._look)()
        return self._holds

    def _look(self) -> bool:
        try:
            return watched_by(self._listener) == self.watched
        except (PermissionDenied, Http404):
            return False
        finally:
            give_back_connections()


_watches: WeakValueDictionary[tuple[int, Listener, Watched], Watch] = WeakValueDictionary()


def watch_of(listener: Listener, watched: Watched) -> Watch:
    """The one that his other streams have, or a new one. In an event loop, just after a look."""
    key = (id(asyncio.get_running_loop()), listener, watched)
    watch = _watches.get(key)
    if watch is None:
        watch = _watches[key] = Watch(listener, watched)
    return watch
