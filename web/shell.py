"""What the frame around every page needs: theme and role. A context processor; it asks the database
nothing of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.http import HttpRequest
from django.utils import timezone

from controlplane.accounts.roles import is_admin, is_auditor, is_operator, is_viewer

THEME_COOKIE = "sluice_theme"
_THEMES = ("light", "dark")


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
    Place("schema", "s", "schema", "Schema", "Its schema"),
    Place("services", "v", "services", "Services", "Its services"),
    Place("savepoints", "k", "savepoint", "Savepoints", "Its savepoints"),
    Place("rollback", "r", "undone", "Roll back", "Roll back in it"),
    Place("settings", "e", "settings", "Settings", "Its settings"),
)


@dataclass(frozen=True, slots=True)
class Shell:
    theme: str
    """Empty follows the system."""
    user: AbstractBaseUser | AnonymousUser

    @property
    def now_ms(self) -> int:
        """The server's clock, so that ages tick right in a browser whose clock is wrong."""
        return int(timezone.now().timestamp() * 1000)

    @property
    def places(self) -> tuple[Place, ...]:
        return PLACES

    @property
    def is_admin(self) -> bool:
        return is_admin(self.user)

    @property
    def is_auditor(self) -> bool:
        return is_auditor(self.user)

    @property
    def is_operator(self) -> bool:
        return is_operator(self.user)

    @property
    def role(self) -> str:
        if self.is_admin:
            return "admin"
        if self.is_operator:
            return "operator"
        if self.is_auditor:
            return "auditor"
        return "viewer" if is_viewer(self.user) else "no role"


def shell(request: HttpRequest) -> dict[str, Shell]:
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return {
        "shell": Shell(
            theme=theme if theme in _THEMES else "",
            user=getattr(request, "user", AnonymousUser()),
        )
    }
