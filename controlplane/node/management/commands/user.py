"""`manage.py user`: people and groups of people, from a shell of the node."""

from __future__ import annotations

import getpass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.http import Http404

from controlplane.accounts.access_levels import ROLES
from controlplane.accounts.roles import is_auditor
from controlplane.audit.shell import get_acting_user, get_shell_user
from controlplane.errors import ControlPlaneError
from controlplane.node.shell.identity import granter
from controlplane.people.actions.groups import (
    do_add_member,
    do_create_group,
    do_delete_group,
    do_remove_member,
)
from controlplane.people.actions.provider_logins import do_connect
from controlplane.people.actions.users import (
    do_activate_user,
    do_create_user,
    do_deactivate_user,
    do_make_link,
    do_set_password,
    do_set_roles,
    get_link_hours,
    require_user_admin,
)
from controlplane.people.oidc.provider import get_oidc_settings
from controlplane.people.queries.users import (
    PeopleGroup,
    PersonRow,
    get_user_detail,
    list_groups,
    list_users,
)
from controlplane.tables.grants import Granter

NAMED = ("show", "create", "roles", "deactivate", "activate", "link", "password", "connect")


class Command(BaseCommand):
    help = "Manage users and groups: `user create pia --role viewer`, `user link pia`."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        helps = {
            "list": "list all users",
            "show": "show the roles of a user and where they come from",
            "create": "create a user without a password; set one with `link` or `password`",
            "roles": "replace the global roles of a user",
            "deactivate": "deactivate a user: sessions and tokens end at once",
            "activate": "reactivate a user, who then needs a new password",
            "link": "print a one-time link to set a password",
            "password": "set the password of a user, entered at the prompt",
            "connect": "connect a user to single sign-on; the password no longer works",
            "groups": "list user groups with their members and roles",
            "group-create": "create an empty user group",
            "group-delete": "delete a user group; its members lose its roles",
            "group-add": "add a user to a group",
            "group-remove": "remove a user from a group",
        }
        for action, words in helps.items():
            each = actions.add_parser(action, help=words)
            if action in NAMED:
                each.add_argument("name", help="the user name")
            if action.startswith("group-"):
                each.add_argument("group", help="the name of the group")
            if action in ("group-add", "group-remove"):
                each.add_argument("name", help="the user name")
            if action == "create":
                each.add_argument("--email", default="", help="the e-mail address")
            if action == "create":
                each.add_argument(
                    "--role",
                    choices=ROLES,
                    action="append",
                    default=[],
                    help="a global role; may be repeated",
                )
            if action == "connect":
                each.add_argument("subject", help="the subject (`sub`) of the user at the provider")
            if action == "roles":
                each.add_argument(
                    "role",
                    choices=ROLES,
                    nargs="*",
                    help="the roles; without any, the user has none",
                )
            if action not in ("list", "show", "groups", "password"):
                each.add_argument("--reason", default="", help="the reason for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        by = get_acting_user()
        try:
            if by is not None and not is_auditor(by):
                raise PermissionDenied(
                    "managing users requires the auditor or admin role everywhere"
                )
            getattr(self, f"_{options['action'].replace('-', '_')}")(options)
        except (ControlPlaneError, Http404, PermissionDenied) as error:
            raise CommandError(str(error)) from error
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error

    def _list(self, options: dict[str, Any]) -> None:
        rows = list_users()
        while rows:
            for row in rows:
                self._say(row)
            rows = list_users(after=rows[-1].name)

    def _show(self, options: dict[str, Any]) -> None:
        detail = get_user_detail(options["name"])
        self._say(detail.person)
        for right in detail.rights:
            why = f"from group {right.by_group}" if right.by_group else "own"
            self.stdout.write(f"{right.right}\t{right.place}\t{why}")

    def _create(self, options: dict[str, Any]) -> None:
        words = {key: options[key] for key in ("email", "reason")}
        self._say(do_create_user(options["name"], by=_by(), roles=options["role"], **words))

    def _roles(self, options: dict[str, Any]) -> None:
        reason = options["reason"]
        self._say(do_set_roles(options["name"], options["role"], by=_by(), reason=reason))

    def _deactivate(self, options: dict[str, Any]) -> None:
        self._say(do_deactivate_user(options["name"], by=_by(), reason=options["reason"]))

    def _activate(self, options: dict[str, Any]) -> None:
        self._say(do_activate_user(options["name"], by=_by(), reason=options["reason"]))

    def _link(self, options: dict[str, Any]) -> None:
        path = do_make_link(options["name"], by=_by(), reason=options["reason"])
        self.stdout.write(f"{settings.SLUICE_PUBLIC_URL.rstrip('/')}{path}")
        self.stderr.write(f"valid once, for {get_link_hours()} hours")

    def _connect(self, options: dict[str, Any]) -> None:
        oidc = get_oidc_settings()
        if oidc is None:
            raise CommandError("single sign-on is not configured: set SLUICE_OIDC_ISSUER")
        words = options["name"], options["subject"]
        self._say(do_connect(*words, oidc, by=_by(), reason=options["reason"]))

    def _password(self, options: dict[str, Any]) -> None:
        user = User.objects.filter(username=options["name"]).first()
        if user is None:
            raise Http404(f"user {options['name']} not found")
        if get_acting_user() != user:
            require_user_admin(_by())
        password = getpass.getpass("New password: ")
        if password != getpass.getpass("Repeat new password: "):
            raise CommandError("the passwords differ; nothing was changed")
        do_set_password(user, password, by=get_shell_user())
        self.stdout.write("password set; all sessions of this user have ended")

    def _groups(self, options: dict[str, Any]) -> None:
        for row in list_groups():
            self._say_group(row)

    def _group_create(self, options: dict[str, Any]) -> None:
        self._say_group(do_create_group(options["group"], by=_by(), reason=options["reason"]))

    def _group_delete(self, options: dict[str, Any]) -> None:
        key = _group_key(options["group"])
        self._say_group(do_delete_group(key, by=_by(), reason=options["reason"]))

    def _group_add(self, options: dict[str, Any]) -> None:
        key, reason = _group_key(options["group"]), options["reason"]
        self._say_group(do_add_member(key, options["name"], by=_by(), reason=reason))

    def _group_remove(self, options: dict[str, Any]) -> None:
        key, reason = _group_key(options["group"]), options["reason"]
        self._say_group(do_remove_member(key, options["name"], by=_by(), reason=reason))

    def _say(self, row: PersonRow) -> None:
        """Parted by tabs."""
        state = "in" if row.is_active else "deactivated"
        roles, member_of = ",".join(row.roles) or "-", ",".join(row.groups) or "-"
        self.stdout.write(f"{row.name}\t{roles}\t{member_of}\t{state}\t{row.signs_in_by}")

    def _say_group(self, row: PeopleGroup) -> None:
        rights = ", ".join(f"{right.right} {right.place}" for right in row.rights)
        self.stdout.write(f"{row.name}\t{','.join(row.members) or '-'}\t{rights or '-'}")


def _by() -> Granter:
    return granter()


def _group_key(name: str) -> int:
    """Raises Http404."""
    keys = [row.id for row in list_groups() if row.name == name]
    if not keys:
        raise Http404(f"user group {name} not found")
    return keys[0]
