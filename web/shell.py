"""What the frame around every page needs: theme and role. A context processor; on a page that
was let through it asks the database nothing of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.http import HttpRequest
from django.utils import timezone

from controlplane.accounts.access_levels import get_highest_role
from controlplane.accounts.roles import is_auditor, load_effective_roles
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
    """A page, as the navigation, the search and the list of keys name it."""

    page: str
    """The name of its address."""
    key: str
    """Pressed behind `g`; empty for pages without a key."""
    icon: str
    title: str
    words: str
    needs: str = ""
    """The property of `Shell` that must hold; empty for pages of every user."""
    is_in_rail: bool = True


@dataclass(frozen=True, slots=True)
class PlaceGroup:
    """Pages under one heading of the navigation."""

    title: str
    places: tuple[Place, ...]
    is_folded: bool = False

    @property
    def pages(self) -> list[str]:
        return [place.page for place in self.places]


NODE_GROUPS: Final = (
    PlaceGroup(
        "",
        (
            Place("home", "g", "overview", "Home", "Home: problems and activity of all tables"),
            Place("tables", "a", "tables", "Tables", "All tables"),
            Place("operations", "q", "operations", "Operations", "Operations of all tables"),
            Place("all-schedules", "", "clock", "Schedules", "Schedules of all tables"),
            Place("alerts", "b", "warning", "Alerts", "Alerts"),
            Place("sql", ";", "sql", "SQL", "SQL over tables with row access"),
        ),
    ),
    PlaceGroup(
        "Administration",
        (
            Place("approvals", "x", "check", "Approvals", "Requests that need approval"),
            Place("access", "n", "lock", "Access", "Roles and row access", "shows_access"),
            Place("people", "p", "people", "Users", "Users and groups", "is_auditor"),
            Place("audit", "u", "audit", "Audit", "Audit log", "is_auditor"),
            Place("tokens", "y", "key", "API tokens", "API tokens"),
            Place(
                "connections", ".", "streams", "Connections", "Connections", "is_admin_everywhere"
            ),
            Place(
                "channels", "", "warning", "Channels", "Alert channels", "is_admin_everywhere",
                is_in_rail=False,
            ),
            Place(
                "node-settings", ",", "settings", "Node settings", "Node settings",
                "is_admin_everywhere",
            ),
            Place(
                "preferences", "", "clock", "Preferences", "Time zone and saved views",
                is_in_rail=False,
            ),
        ),
        is_folded=True,
    ),
)  # fmt: skip
TABLE_GROUPS: Final = (
    PlaceGroup("", (Place("overview", "o", "overview", "Overview", "Overview of the table"),)),
    PlaceGroup(
        "Now",
        (
            Place("live", "l", "live", "Live", "Live view"),
            Place("writers", "w", "play", "Writers", "Writers"),
            Place("locks", "h", "lock", "Locks", "Lock"),
            Place("markers", "m", "marker", "Markers", "Markers"),
            Place("conflicts", "c", "conflict", "Conflicts", "Conflicts"),
        ),
    ),
    PlaceGroup(
        "Data",
        (
            Place("data", "z", "rows", "Data", "Rows at any time"),
            Place("schema", "s", "schema", "Schema", "Schema"),
            Place("files", "f", "files", "File groups", "File groups"),
            Place("streams", "j", "streams", "Streams", "Streams and their join"),
            Place("sinks", "i", "sink", "Sinks", "Kafka sinks"),
        ),
    ),
    PlaceGroup(
        "History",
        (
            Place("timeline", "t", "timeline", "Timeline", "Timeline"),
            Place("trends", "", "overview", "Trends", "Rows, bytes and durations by day"),
            Place("savepoints", "k", "savepoint", "Savepoints", "Savepoints"),
            Place("rollback", "r", "undone", "Rollback", "Rollback"),
        ),
    ),
    PlaceGroup(
        "Run",
        (
            Place("services", "v", "services", "Services", "Table services"),
            Place("schedules", "d", "clock", "Schedules", "Schedules"),
            Place("settings", "e", "settings", "Settings", "Table settings"),
        ),
    ),
)
"""Groups of the pages that every table has."""
PLACES: Final = tuple(place for group in TABLE_GROUPS for place in group.places)


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
    def node_groups(self) -> list[PlaceGroup]:
        """Pages of the node that this user may see, without groups that have none."""
        groups = [replace(group, places=self._allow(group.places)) for group in NODE_GROUPS]
        return [group for group in groups if group.places]

    @property
    def table_groups(self) -> tuple[PlaceGroup, ...]:
        return TABLE_GROUPS

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
        everywhere = load_effective_roles(self.user).everywhere
        if everywhere:
            return get_highest_role(*everywhere)
        return "roles on some tables" if may_see_some(self.user) else "no role"

    def _allow(self, places: tuple[Place, ...]) -> tuple[Place, ...]:
        return tuple(place for place in places if not place.needs or getattr(self, place.needs))

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
