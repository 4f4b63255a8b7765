"""Who acts from a shell of this machine, for the audit.

Anyone who has the shell has the database and the files, so no role is asked for, unless the command
names a user of the node in whose name it runs: `manage.py --as ada ...`, or the variable SLUICE_AS.
Then the rights of that user apply.
"""

from __future__ import annotations

import getpass
from typing import Final

from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest
from workers.installation import format_command

AS_VARIABLE: Final = "SLUICE_AS"
SHELL_SUFFIX: Final = " (shell)"
_named = ""


def act_as(name: str) -> None:
    """Run the commands of this process as this user of the node; empty: as the shell itself.

    Raises InvalidRequest for a user that there is not, or that is locked out.
    """
    global _named  # noqa: PLW0603 -- one process is one command of one person
    _named = name
    acting_user()


def acting_user() -> User | None:
    """Return the user in whose name this command runs; None for the shell itself.

    Raises InvalidRequest.
    """
    if not _named:
        return None
    user = User.objects.filter(username=_named, is_active=True).first()
    if user is None:
        raise InvalidRequest(
            "there is no user of this name who may sign in; "
            f"`{format_command('user list')}` shows them",
            user=_named[:150],
        )
    return user


def shell_user() -> str:
    """Return the name for the audit: the named user's, else the one on this machine, marked so that
    no user of the node has it.
    """
    return _named or f"{getpass.getuser()}{SHELL_SUFFIX}"
