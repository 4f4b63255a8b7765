"""Where an operation's process keeps its log and its ending, and finds that it was cancelled."""

from __future__ import annotations

import uuid

from django.conf import settings


def run_dir(operation_id: uuid.UUID) -> str:
    return str(settings.SLUICE_HOME / "run" / "operations" / str(operation_id))
