"""`python -m sluice NAME ...` is the command `sluice`."""

from __future__ import annotations

import sys

from .command_line import main

sys.argv[0] = "sluice"
main()
