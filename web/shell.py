"""What the frame around every page needs: theme and role. A context processor; on a page that
was let through it asks the database nothing of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.http import HttpRequest
from django.utils import timezone

from controlplane.accounts.role_names import greatest
from controlplane.accounts.roles import is_auditor, reach_of
from controlplane.tables.access import (
    Permission,
    may,
    may_everywhere,
    may_see_some,
    role_on,
    visited_table,
)
from controlplane.tables.grants import may_grant_somewhere
from web.curl import as_curl
from web.page_files import ListFiles, page_files
from web.time_zones import local, shown_zone, zone_words

if TYPE_CHECKING:
    from controlplane.tables.models import Table

THEME_COOKIE = "sluice_theme"
DENSITY_COOKIE = "sluice_density"
_THEMES = ("light", "dark")
_DENSITIES = ("comfortable", "compact")


@dataclass(frozen=True, slots=True)
class Place:
    """A page of every table, as the rail and the list of keys name it."""

    page: str
    """The name of its address."""
    key: str
    """Pressed behind `g`."""
    icon: str
    title: str
    words: str


PLACES = (
    Place("overview", "o", "overview", "Overview", "Overview of this table"),
    Place("live", "l", "live", "Live", "Its live view"),
    Place("writers", "w", "play", "Writers", "Its writers"),
    Place("locks", "h", "lock", "Locks", "Who holds its lock"),
    Place("markers", "m", "marker", "Markers", "Its markers"),
    Place("conflicts", "c", "conflict", "Conflicts", "Its conflicts"),
    Place("timeline", "t", "timeline", "Timeline", "Its timeline"),
    Place("files", "f", "files", "File groups", "Its file groups"),
    Place("streams", "j", "streams", "Streams", "Its streams and their join"),
    Place("sinks", "i", "sink", "Sinks", "Its Kafka sinks"),
    Place("data", "z", "rows", "Data", "Its rows, of any moment"),
    Place("schema", "s", "schema", "Schema", "Its schema"),
    Place("services", "v", "services", "Services", "Its services"),
    Place("schedules", "d", "clock", "Schedules", "What is scheduled on it"),
    Place("savepoints", "k", "savepoint", "Savepoints", "Its savepoints"),
    Place("rollback", "r", "undone", "Roll back", "Roll back in it"),
    Place("settings", "e", "settings", "Settings", "Its settings"),
)


@dataclass(frozen=True, slots=True)
class Shell:
    theme: str
    """Empty follows the system."""
    density: str
    """Empty is the measure between the two."""
    user: AbstractBaseUser | AnonymousUser
    table: Table | None
    """Of this page, once it was come to."""
    request: HttpRequest

    @property
    def now_ms(self) -> int:
        """The server's clock, so that ages tick right in a browser whose clock is wrong."""
        return int(timezone.now().timestamp() * 1000)

    @property
    def clock(self) -> str:
        """The server's, as this reader's pages write times."""
        return f"{local(timezone.now()):%H:%M:%S}"

    @property
    def zone_name(self) -> str:
        return str(shown_zone())

    @property
    def zone_words(self) -> str:
        return zone_words(timezone.now())

    @property
    def curl(self) -> str:
        """The same as this page, asked of the API; empty where it has no twin there."""
        return as_curl(self.request)

    @property
    def files(self) -> list[ListFiles]:
        """The lists of this page as files."""
        return page_files(self.request)

    @property
    def places(self) -> tuple[Place, ...]:
        return PLACES

    @property
    def is_admin(self) -> bool:
        """On the table of this page; everywhere where the page is of no table."""
        return self._may(Permission.ADMINISTER)

    @property
    def is_admin_everywhere(self) -> bool:
        return may_everywhere(self.user, Permission.ADMINISTER)

    @property
    def is_auditor(self) -> bool:
        return is_auditor(self.user)

    @property
    def shows_access(self) -> bool:
        """Whether the page of who has which role is of use to this user."""
        return is_auditor(self.user) or may_grant_somewhere(self.user)

    @property
    def is_operator(self) -> bool:
        """As `is_admin`."""
        return self._may(Permission.OPERATE)

    @property
    def role(self) -> str:
        """On the table of this page, or everywhere; in words where it differs by table."""
        if self.table is not None:
            return role_on(self.user, self.table)
        everywhere = reach_of(self.user).everywhere
        if everywhere:
            return greatest(*everywhere)
        return "roles on some tables" if may_see_some(self.user) else "no role"

    def _may(self, permission: Permission) -> bool:
        if self.table is not None:
            return may(self.user, permission, self.table)
        return may_everywhere(self.user, permission)


def shell(request: HttpRequest) -> dict[str, Shell]:
    theme = request.COOKIES.get(THEME_COOKIE, "")
    density = request.COOKIES.get(DENSITY_COOKIE, "")
    user = getattr(request, "user", AnonymousUser())
    match = request.resolver_match
    slug = str(match.kwargs.get("slug", "")) if match else ""
    return {
        "shell": Shell(
            theme=theme if theme in _THEMES else "",
            density=density if density in _DENSITIES else "",
            user=user,
            table=visited_table(user, slug),
            request=request,
        )
    }
