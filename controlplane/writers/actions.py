"""Writing down what workers report."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controlplane.batches import delete_in_batches
from controlplane.writers.models import Report


def do_record_hint(
    *, operation_ref: str, state: str, message: str, body: Mapping[str, Any]
) -> Report:
    return Report.objects.create(
        operation_ref=operation_ref, state=state, message=message, body=dict(body)
    )


def do_forget_hints(*, before: datetime) -> int:
    """Reports are of use while an operation is young."""
    return delete_in_batches(Report.objects.filter(received_at__lt=before))
