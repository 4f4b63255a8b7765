"""What a program asks a node about people, their groups and their roles, and what it has it change;
for whoever keeps them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .connection import Connection, segment
from .rows import GrantRow, PasswordLink, PeopleGroup, PersonDetail, PersonRow


class PeopleCalls:
    """A part of `Client`."""

    _connection: Connection

    # People

    def users(self, *, search: str = "") -> Iterator[PersonRow]:
        """Everybody by name, or those whom `search` fits."""
        last = ""
        while True:
            rows = self._connection.get(
                list[PersonRow], "users/", {"search": search or None, "after": last or None}
            )
            yield from rows
            if not rows:
                return
            last = rows[-1]["name"]

    def user(self, name: str) -> PersonDetail:
        """One person, with all that he may, and why."""
        return self._connection.get(PersonDetail, _user(name))

    def create_user(
        self, name: str, *, email: str = "", roles: Sequence[str] = (), reason: str = ""
    ) -> PersonRow:
        """Without a password: `password_link` makes a way to set it."""
        body = {"name": name, "email": email, "roles": list(roles), "reason": reason}
        return self._connection.ask(PersonRow, "POST", "users/", body)

    def change_user(
        self,
        name: str,
        *,
        roles: Sequence[str] | None = None,
        is_active: bool | None = None,
        reason: str = "",
    ) -> PersonDetail:
        """Roles in place of those that held everywhere; `is_active=False` ends sessions and tokens
        at once. All of it happens, or nothing.
        """
        body: dict[str, Any] = {"reason": reason}
        if roles is not None:
            body["roles"] = list(roles)
        if is_active is not None:
            body["is_active"] = is_active
        return self._connection.ask(PersonDetail, "PATCH", _user(name), body)

    def password_link(self, name: str, *, reason: str = "") -> PasswordLink:
        """An address on which the person sets a password, once; hand it over in private."""
        return self._connection.ask(PasswordLink, "POST", f"{_user(name)}link/", {"reason": reason})

    def groups(self) -> list[PeopleGroup]:
        """Groups of people with their members and what they give them."""
        return self._connection.get(list[PeopleGroup], "groups/")

    def create_group(self, name: str, *, reason: str = "") -> PeopleGroup:
        """A group without members."""
        return self._connection.ask(
            PeopleGroup, "POST", "groups/", {"name": name, "reason": reason}
        )

    def add_member(self, group_id: int, name: str) -> PeopleGroup:
        """Who is one already stays one."""
        return self._connection.ask(PeopleGroup, "PUT", _member(group_id, name), {})

    def remove_member(self, group_id: int, name: str) -> PeopleGroup:
        """He loses what the group gave him."""
        return self._connection.ask(PeopleGroup, "DELETE", _member(group_id, name), {})

    def delete_group(self, group_id: int) -> None:
        """With its roles, which its members lose."""
        self._connection.ask(object, "DELETE", f"groups/{group_id}/", {})

    # Roles

    def grants(self) -> list[GrantRow]:
        """Roles in namespaces and on tables, of those places whose admin the token's owner is."""
        return self._connection.get(list[GrantRow], "grants/")

    def revoke(self, grant_id: int) -> None:
        """Take the role of one grant away, at once."""
        self._connection.ask(object, "DELETE", f"grants/{grant_id}/", {})


def _user(name: str) -> str:
    return f"users/{segment(name)}/"


def _member(group_id: int, name: str) -> str:
    return f"groups/{group_id}/members/{segment(name)}/"
