"""`manage.py user`: people and groups of people, from a shell of the node."""

from __future__ import annotations

import getpass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.http import Http404

from controlplane.accounts.role_names import ROLES
from controlplane.accounts.roles import is_auditor
from controlplane.audit.shell import acting_user, shell_user
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
    check_keeper,
    do_activate_user,
    do_create_user,
    do_deactivate_user,
    do_make_link,
    do_set_password,
    do_set_roles,
    link_hours,
)
from controlplane.people.oidc.provider import oidc_settings
from controlplane.people.queries.users import (
    PeopleGroup,
    PersonRow,
    groups,
    people,
    person_detail,
)
from controlplane.tables.grants import Granter

NAMED = ("show", "create", "roles", "deactivate", "activate", "link", "password", "connect")


class Command(BaseCommand):
    help = "People and groups: `user create pia --role viewer`, `user link pia`, `user show pia`."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        helps = {
            "list": "who there is",
            "show": "what this person may do where, and why",
            "create": "somebody without a password; `link` or `password` gives one",
            "roles": "these everywhere, and no others",
            "deactivate": "lock out: sessions and tokens end at once",
            "activate": "let in again; a new password is needed",
            "link": "print a link that sets the password, once",
            "password": "ask for a new password here and set it",
            "connect": "let this user sign in by the provider, and by no password any more",
            "groups": "groups of people, with their members and roles",
            "group-create": "an empty group of people",
            "group-delete": "with its roles, which its members lose",
            "group-add": "make somebody a member",
            "group-remove": "end a membership",
        }
        for action, words in helps.items():
            each = actions.add_parser(action, help=words)
            if action in NAMED:
                each.add_argument("name", help="what the user signs in with")
            if action.startswith("group-"):
                each.add_argument("group")
            if action in ("group-add", "group-remove"):
                each.add_argument("name", help="what the user signs in with")
            if action == "create":
                each.add_argument("--email", default="")
            if action == "create":
                each.add_argument(
                    "--role", choices=ROLES, action="append", default=[], help="everywhere"
                )
            if action == "connect":
                each.add_argument("subject", help="`sub` of the provider, which says who it is")
            if action == "roles":
                each.add_argument("role", choices=ROLES, nargs="*", help="none for no role")
            if action not in ("list", "show", "groups", "password"):
                each.add_argument("--reason", default="", help="for the audit")

    def handle(self, *args: Any, **options: Any) -> None:
        by = acting_user()
        try:
            if by is not None and not is_auditor(by):
                raise PermissionDenied("people are for auditors and admins everywhere")
            getattr(self, f"_{options['action'].replace('-', '_')}")(options)
        except (ControlPlaneError, Http404, PermissionDenied) as error:
            raise CommandError(str(error)) from error
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error

    def _list(self, options: dict[str, Any]) -> None:
        rows = people()
        while rows:
            for row in rows:
                self._say(row)
            rows = people(after=rows[-1].name)

    def _show(self, options: dict[str, Any]) -> None:
        detail = person_detail(options["name"])
        self._say(detail.person)
        for right in detail.rights:
            why = f"by the group {right.by_group}" if right.by_group else "own"
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
        self.stderr.write(f"good for {link_hours()} hours, and once")

    def _connect(self, options: dict[str, Any]) -> None:
        oidc = oidc_settings()
        if oidc is None:
            raise CommandError("there is no provider: SLUICE_OIDC_ISSUER is not set")
        words = options["name"], options["subject"]
        self._say(do_connect(*words, oidc, by=_by(), reason=options["reason"]))

    def _password(self, options: dict[str, Any]) -> None:
        user = User.objects.filter(username=options["name"]).first()
        if user is None:
            raise Http404(f"there is no user {options['name']}")
        if acting_user() != user:
            check_keeper(_by())
        password = getpass.getpass("New password: ")
        if password != getpass.getpass("Again: "):
            raise CommandError("the two are not the same; nothing was changed")
        do_set_password(user, password, by=shell_user())
        self.stdout.write("set; all sessions of this user have ended")

    def _groups(self, options: dict[str, Any]) -> None:
        for row in groups():
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
        state = "in" if row.is_active else "locked out"
        roles, member_of = ",".join(row.roles) or "-", ",".join(row.groups) or "-"
        self.stdout.write(f"{row.name}\t{roles}\t{member_of}\t{state}\t{row.signs_in_by}")

    def _say_group(self, row: PeopleGroup) -> None:
        rights = ", ".join(f"{right.right} {right.place}" for right in row.rights)
        self.stdout.write(f"{row.name}\t{','.join(row.members) or '-'}\t{rights or '-'}")


def _by() -> Granter:
    return granter()


def _group_key(name: str) -> int:
    """Raises Http404."""
    keys = [row.id for row in groups() if row.name == name]
    if not keys:
        raise Http404(f"there is no group of people {name}")
    return keys[0]
