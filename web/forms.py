"""Forms of the dashboard. They check what a form can; the service checks everything again."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms

from controlplane.operations.actions import PlanView

REASON_CHARS_MAX = 500


class RollbackForm(forms.Form):
    """The confirmation of one plan: the table's name typed, and why."""

    typed_name = forms.CharField(
        max_length=200, error_messages={"required": "Type the table's name."}
    )
    reason = forms.CharField(
        max_length=REASON_CHARS_MAX,
        error_messages={
            "required": "Say why; it is kept in the audit record.",
            "max_length": "Keep it under 500 characters.",
        },
    )
    plan_hash = forms.CharField(max_length=64)
    idempotency_key = forms.UUIDField()

    def __init__(self, *args: Any, expected_names: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._expected_names = expected_names

    @classmethod
    def of(cls, plan: PlanView) -> RollbackForm:
        """An empty form. Its key makes a second click, or a reload of the request, the same
        request.
        """
        return cls(initial={"plan_hash": plan.plan_hash, "idempotency_key": uuid.uuid4()})

    def clean_typed_name(self) -> str:
        typed = str(self.cleaned_data["typed_name"]).strip()
        if typed not in self._expected_names:
            raise forms.ValidationError(f"This is not the table's name, {self._expected_names[0]}.")
        return typed
