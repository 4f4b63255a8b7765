"""`manage.py token`: make, list and revoke tokens of the API."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from django.http import Http404

from controlplane.accounts.access_levels import ADMINISTER, SCOPES
from controlplane.accounts.roles import is_auditor
from controlplane.audit.shell import get_acting_user, get_shell_user
from controlplane.errors import InvalidRequest
from controlplane.node.shell.identity import granter
from controlplane.people.actions.tokens import TokenRequest, do_create_token, do_revoke_token
from controlplane.people.queries.tokens import list_user_tokens
from workers.installation import format_command


class Command(BaseCommand):
    help = "Create, list and revoke API tokens; `token create NAME` prints the token once."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="create a token for this user and print it")
        create.add_argument("user", help="the owner; the token has at most the owner's roles")
        days = settings.SLUICE_TOKEN_DAYS
        create.add_argument(
            "--days", type=int, default=days, help=f"days until the token expires ({days})"
        )
        create.add_argument("--name", default="", help="the purpose of the token")
        create.add_argument(
            "--scope", choices=SCOPES, default=ADMINISTER, help=f"the access level ({ADMINISTER})"
        )
        create.add_argument(
            "--namespace",
            action="append",
            default=[],
            help="limit the token to this namespace; may be repeated",
        )
        create.add_argument(
            "--table",
            action="append",
            default=[],
            help="limit the token to the table with this slug; may be repeated",
        )
        listed = actions.add_parser("list", help="list the user's tokens by their first characters")
        listed.add_argument("user", help="the owner of the tokens")
        revoke = actions.add_parser("revoke", help="revoke a token at once")
        revoke.add_argument("user", help="the owner of the token")
        revoke.add_argument("id", help="the first characters of the token, from `list`")
        revoke.add_argument("--reason", default="", help="the reason for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            user = _user(options["user"])
            getattr(self, f"_{options['action']}")(user, options)
        except (InvalidRequest, PermissionDenied, Http404) as error:
            raise CommandError(str(error)) from error
        except DatabaseError as error:
            raise CommandError(
                f"the node's database is not ready, run `{format_command('up')}`: {error}"
            ) from error

    def _create(self, user: User, options: dict[str, Any]) -> None:
        if get_acting_user() not in (None, user):
            raise PermissionDenied("you can create tokens only for yourself, not for other users")
        wanted = TokenRequest(
            days=options["days"],
            name=options["name"],
            scope=options["scope"],
            namespaces=tuple(options["namespace"]),
            tables=tuple(options["table"]),
        )
        row, token = do_create_token(user, wanted, by=get_shell_user())
        # The token alone on standard output, so that a program may take it.
        self.stdout.write(token)
        until = f"until {row.expiry:%Y-%m-%d}" if row.expiry else "without end"
        self.stderr.write(
            f"id {row.id}, scope {row.scope}, valid {until}; send it as: Authorization: "
            "Token <token>"
        )

    def _list(self, user: User, options: dict[str, Any]) -> None:
        by = get_acting_user()
        if by not in (None, user) and not is_auditor(by):
            raise PermissionDenied("tokens of other users require the auditor or admin role")
        for row in list_user_tokens(user):
            until = f"{row.expiry:%Y-%m-%d %H:%M}" if row.expiry else "never"
            used = f"{row.last_used_at:%Y-%m-%d %H:%M}" if row.last_used_at else "never"
            places = " ".join(
                [
                    *(f"namespace:{name}" for name in row.namespaces),
                    *(f"table:{slug}" for slug in row.tables),
                ]
            )
            self.stdout.write(
                f"{row.id}  {row.scope} {places or 'everywhere'}  created "
                f"{row.created:%Y-%m-%d %H:%M}  expires {until}  used {used}  {row.name}".rstrip()
            )

    def _revoke(self, user: User, options: dict[str, Any]) -> None:
        by = granter()
        owner = user.get_username()
        try:
            do_revoke_token(options["id"], by=by, owner=owner, reason=options["reason"])
        except Http404 as error:
            raise CommandError(f"{owner} has no token {options['id']}") from error
        self.stdout.write("revoked")


def _user(name: str) -> User:
    """Raises CommandError."""
    user = User.objects.filter(username=name).first()
    if user is None:
        names = User.objects.order_by("username").values_list("username", flat=True)[:10]
        known = ", ".join(names) or f"no users yet: run `{format_command('up')}`"
        raise CommandError(f"user {name} not found; users: {known}")
    return user
