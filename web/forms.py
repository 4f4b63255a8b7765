"""Forms of the dashboard. They check what a form can; the service checks everything again."""

from __future__ import annotations

import uuid
from typing import Any, Self

from django import forms

from controlplane.operations.actions import PlanView, ServicePlanView
from controlplane.operations.confirmation import REASON_CHARS_MAX
from controlplane.operations.descriptions.rollback import ROLLBACK
from controlplane.operations.descriptions.schedules import SET_SERVICE
from controlplane.operations.descriptions.services import SERVICE
from web.request_forms import RequestForm


class ConfirmationForm(RequestForm):
    """The confirmation of one plan. A destructive one needs the table's name and a reason."""

    plan_hash = forms.CharField(max_length=64)
    idempotency_key = forms.UUIDField()

    def __init__(
        self,
        *args: Any,
        expected_names: tuple[str, ...] = (),
        is_destructive: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._expected_names = expected_names
        self.fields["typed_name"].required = self.fields["reason"].required = is_destructive

    @classmethod
    def of(cls, plan: PlanView | ServicePlanView) -> Self:
        """Return an empty form. Its key makes a second click, or a reload of the request, the same
        request.
        """
        return cls(initial={"plan_hash": plan.plan_hash, "idempotency_key": uuid.uuid4()})

    def clean_typed_name(self) -> str:
        typed = str(self.cleaned_data["typed_name"]).strip()
        if typed and typed not in self._expected_names:
            raise forms.ValidationError(f"This is not the table's name, {self._expected_names[0]}.")
        return typed


class RollbackForm(ConfirmationForm):
    """The confirmation of a rollback."""

    description = ROLLBACK


class ServiceForm(ConfirmationForm):
    """The confirmation of a table service."""

    description = SERVICE


class ServiceSettingForm(RequestForm):
    """When a service runs automatically."""

    description = SET_SERVICE


class SilenceForm(forms.Form):
    """For how long nobody wants to be told of an alert, and why."""

    hours = forms.TypedChoiceField(
        coerce=int,
        choices=[(1, "an hour"), (4, "4 hours"), (24, "a day"), (72, "3 days"), (168, "a week")],
        initial=4,
        error_messages={
            "required": "Choose a duration.",
            "invalid_choice": "Choose one of the listed values.",
        },
    )
    reach = forms.ChoiceField(
        choices=[
            ("table", "this table"),
            ("namespace", "all tables of its namespace"),
            ("everywhere", "all tables"),
        ],
        required=False,
        initial="table",
        help_text="limited to tables where you are an operator",
    )
    what = forms.ChoiceField(
        choices=[("check", "this check"), ("all", "all checks")], required=False, initial="check"
    )
    reason = forms.CharField(
        max_length=REASON_CHARS_MAX,
        error_messages={
            "required": "Enter a reason; other users see it with the alert.",
            "max_length": "Enter at most 500 characters.",
        },
    )

    @property
    def words(self) -> dict[str, Any]:
        """What a valid form says: `hours`, `reason`, `reach` and `every_check`."""
        given = self.cleaned_data
        return {
            "hours": given["hours"],
            "reason": given["reason"],
            "reach": given["reach"] or "table",
            "every_check": given["what"] == "all",
        }


class AlertRuleForm(forms.Form):
    """When a check fires; the control plane knows the choices."""

    fires = forms.CharField(max_length=8)
    hold_minutes = forms.IntegerField(min_value=0, max_value=1440)
    severity = forms.CharField(max_length=8, required=False)
    window_minutes = forms.IntegerField(min_value=1, max_value=10_080, required=False)
