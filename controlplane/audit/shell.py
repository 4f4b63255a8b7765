"""Who acts from a shell of this machine, for the audit: whoever has it has the database and the
files, so no role is asked for.
"""

from __future__ import annotations

import getpass

SHELL_SUFFIX = " (shell)"


def shell_user() -> str:
    """The name on this machine, marked so that no user of the node has it."""
    return f"{getpass.getuser()}{SHELL_SUFFIX}"
