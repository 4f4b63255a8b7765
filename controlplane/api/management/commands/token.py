"""`manage.py token`: make, list and revoke tokens of the API."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from controlplane.api.actions import DAYS_DEFAULT, do_create_token, do_revoke_token
from controlplane.api.queries import tokens_of
from controlplane.audit.shell import shell_user
from controlplane.errors import InvalidRequest


class Command(BaseCommand):
    help = (
        "Tokens of the API: `token create NAME` prints one, once; `list` and `revoke` see to them."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="print a new token of this user")
        create.add_argument("user", help="whose token it is; it may what that user may")
        create.add_argument(
            "--days", type=int, default=DAYS_DEFAULT, help=f"until it ends ({DAYS_DEFAULT})"
        )
        listed = actions.add_parser("list", help="the user's tokens by their first characters")
        listed.add_argument("user")
        revoke = actions.add_parser("revoke", help="end one at once")
        revoke.add_argument("user")
        revoke.add_argument("id", help="its first characters, as `list` shows them")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            user = _user(options["user"])
            getattr(self, f"_{options['action']}")(user, options)
        except (InvalidRequest, PermissionDenied) as error:
            raise CommandError(str(error)) from error
        except DatabaseError as error:
            raise CommandError(
                f"the node's database is not ready, run `make up`: {error}"
            ) from error

    def _create(self, user: User, options: dict[str, Any]) -> None:
        row, token = do_create_token(user, days=options["days"], by=shell_user())
        # The token alone on standard output, so that a program may take it.
        self.stdout.write(token)
        until = f"until {row.expiry:%Y-%m-%d}" if row.expiry else "for ever"
        self.stderr.write(f"id {row.token_key}, good {until}; use: Authorization: Token <token>")

    def _list(self, user: User, options: dict[str, Any]) -> None:
        for row in tokens_of(user):
            until = f"{row.expiry:%Y-%m-%d %H:%M}" if row.expiry else "for ever"
            self.stdout.write(
                f"{row.token_key}  made {row.created:%Y-%m-%d %H:%M}  good until {until}"
            )

    def _revoke(self, user: User, options: dict[str, Any]) -> None:
        if not do_revoke_token(user, options["id"], by=shell_user()):
            raise CommandError(f"{user.get_username()} has no token {options['id']}")
        self.stdout.write("revoked")


def _user(name: str) -> User:
    """Raises CommandError."""
    user = User.objects.filter(username=name).first()
    if user is None:
        names = User.objects.order_by("username").values_list("username", flat=True)[:10]
        known = ", ".join(names) or "nobody yet, run `make up`"
        raise CommandError(f"there is no user {name}; there is {known}")
    return user
