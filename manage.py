#!/usr/bin/env python
"""Django's entry point for the shell: `python manage.py <command> --help`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.prod")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import OperationalError, ProgrammingError

    from controlplane.node.environment import adopt
    from controlplane.node.identity import BadSetting

    words = sys.argv[1:]
    wants_help = not words or not {"--help", "-h", "--version"}.isdisjoint(words)
    try:
        adopt(os.environ, command="help" if wants_help else words[0])
    except BadSetting as error:
        sys.exit(str(error))
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(str(error))
    except (OperationalError, ProgrammingError) as error:
        if "--traceback" in words:
            raise
        sys.exit(
            f"the node's database cannot be used: {str(error).strip()}; `make up` makes it and "
            "brings its tables up to date, and SLUICE_HOME or SLUICE_DATABASE say where it is"
        )


if __name__ == "__main__":
    main()
