"""The user of a shell of this machine, for the audit log.

The user of the shell has access to the database and the files, so no role is required. With `--as`
(`manage.py --as ada ...`) or the variable SLUICE_AS a command runs as a user of the node. Then the
roles of that user apply.
"""

from __future__ import annotations

import getpass
from typing import Final

from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest
from workers.installation import format_command

AS_VARIABLE: Final = "SLUICE_AS"
SHELL_SUFFIX: Final = " (shell)"
_user_name = ""


def act_as(name: str) -> None:
    """Run the commands of this process as this user of the node; empty for the shell itself.

    Raises InvalidRequest for an unknown or deactivated user.
    """
    global _user_name  # noqa: PLW0603 -- one process is one command of one user
    _user_name = name
    get_acting_user()


def get_acting_user() -> User | None:
    """Return the user of `--as`, who runs this command; None for the shell itself.

    Raises InvalidRequest.
    """
    if not _user_name:
        return None
    user = User.objects.filter(username=_user_name, is_active=True).first()
    if user is None:
        raise InvalidRequest(
            f"no active user has this name; `{format_command('user list')}` lists all users",
            user=_user_name[:150],
        )
    return user


def get_shell_user() -> str:
    """Return the name for the audit log: that of the user, else the account on this machine with a
    suffix that no user of the node has.
    """
    return _user_name or f"{getpass.getuser()}{SHELL_SUFFIX}"
