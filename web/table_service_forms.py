"""Forms of the service pages: the confirmation of a plan, and a schedule."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms

from controlplane.operations.actions import ServicePlanView

REASON_CHARS_MAX = 500


class ServiceForm(forms.Form):
    """The confirmation of one plan. A destructive one wants the table's name and a reason."""

    typed_name = forms.CharField(max_length=200, required=False)
    reason = forms.CharField(
        max_length=REASON_CHARS_MAX,
        required=False,
        error_messages={"max_length": "Keep it under 500 characters."},
    )
    plan_hash = forms.CharField(max_length=64)
    idempotency_key = forms.UUIDField()

    def __init__(
        self,
        *args: Any,
        expected_names: tuple[str, ...] = (),
        is_destructive: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._expected_names = expected_names
        self._is_destructive = is_destructive

    @classmethod
    def of(cls, plan: ServicePlanView) -> ServiceForm:
        """An empty form. Its key makes a second click, or a reload of the request, the same
        request.
        """
        return cls(initial={"plan_hash": plan.plan_hash, "idempotency_key": uuid.uuid4()})

    def clean_typed_name(self) -> str:
        typed = str(self.cleaned_data["typed_name"]).strip()
        if self._is_destructive and not typed:
            raise forms.ValidationError("Type the table's name.")
        if typed and typed not in self._expected_names:
            raise forms.ValidationError(f"This is not the table's name, {self._expected_names[0]}.")
        return typed

    def clean_reason(self) -> str:
        reason = str(self.cleaned_data["reason"]).strip()
        if self._is_destructive and not reason:
            raise forms.ValidationError("Say why; it is kept in the audit record.")
        return reason


class SettingForm(forms.Form):
    """When a service runs by itself."""

    enabled = forms.BooleanField(required=False)
    every_minutes = forms.IntegerField(
        min_value=1,
        max_value=7 * 24 * 60,
        error_messages={
            "required": "Say how often.",
            "min_value": "At least a minute.",
            "max_value": "At most a week.",
        },
    )
    trigger_commits = forms.IntegerField(
        min_value=0,
        max_value=100_000,
        error_messages={"required": "0 waits for no commits.", "min_value": "0 or more."},
    )
