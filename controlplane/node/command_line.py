"""The command line of a node: `manage.py NAME ...` in a checkout, `sluice NAME ...` elsewhere."""

from __future__ import annotations

import os
import sys

from workers.installation import format_command


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.prod")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import OperationalError, ProgrammingError

    from controlplane.node.environment import adopt
    from controlplane.node.identity import BadSetting

    acts_as = _acts_as(sys.argv)
    words = sys.argv[1:]
    wants_help = not words or not {"--help", "-h", "--version"}.isdisjoint(words)
    try:
        adopt(os.environ, command="help" if wants_help else words[0])
    except BadSetting as error:
        sys.exit(str(error))
    try:
        if acts_as and not wants_help:
            _act_as(acts_as, words[0])
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(str(error))
    except (OperationalError, ProgrammingError) as error:
        if "--traceback" in words:
            raise
        sys.exit(
            f"the node's database cannot be used: {str(error).strip()}; `{format_command('up')}` "
            "makes it and brings its tables up to date, and SLUICE_HOME or SLUICE_DATABASE name "
            "its place"
        )


def _acts_as(argv: list[str]) -> str:
    """Remove `--as NAME` before the command, or SLUICE_AS, and return the name."""
    named = os.environ.pop("SLUICE_AS", "")
    if argv[1:2] == ["--as"] and len(argv) > 2:
        named = argv[2]
        del argv[1:3]
    elif argv[1:2] and argv[1].startswith("--as="):
        named = argv[1].removeprefix("--as=")
        del argv[1]
    return named


def _act_as(name: str, command: str) -> None:
    import django
    from django.core.exceptions import PermissionDenied

    django.setup()
    from controlplane.errors import ControlPlaneError
    from controlplane.node.shell.identity import begin

    try:
        begin(name, command=command)
    except (ControlPlaneError, PermissionDenied) as error:
        sys.exit(str(error))
