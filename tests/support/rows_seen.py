"""Whoever may see every value of every row, for tests that are about something else."""

from __future__ import annotations

from controlplane.tables.row_access import whole_access

ALL_ROWS = whole_access("a test", "")
