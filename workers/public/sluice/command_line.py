"""The command `sluice`: `sluice NAME ...` runs the management command NAME, as `manage.py` does in
a checkout.

Our packages go first on the import path: this process is ours.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

from . import __version__
from .packages import find_packages


def main() -> None:
    """Run the command that the arguments name; end with one sentence if it cannot be run."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"sluice {__version__}\n")
        return
    try:
        find_packages("workers", "controlplane", "web", goes_first=True)
    except ImportError as error:
        sys.exit(f"sluice: {error}")
    installation = import_module("workers.installation")
    if find_spec("django") is None:
        sys.exit(
            "sluice: commands need the packages of a node: "
            f"{installation.format_installation('server')}"
        )
    try:
        import_module("controlplane.node.command_line").main()
    except ModuleNotFoundError as error:
        sentence = installation.describe_missing(error)
        if sentence is None:
            raise
        sys.exit(f"sluice: {sentence}")
