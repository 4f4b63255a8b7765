"""The error of a backup or a restore."""

from __future__ import annotations


class BackupFailed(Exception):
    """The text states what happened, to what, and what to do. Nothing was changed."""
