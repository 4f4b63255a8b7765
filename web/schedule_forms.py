"""The form of a schedule: what is asked for, and when. All of it is checked again behind it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django import forms

from controlplane.operations.descriptions.services import get_service
from controlplane.operations.permissions import schedulable_services
from controlplane.operations.scheduled.due_times import CRON_CHARS_MAX, EVERY_S_MAX, EVERY_S_MIN
from controlplane.operations.scheduled.queries import ScheduleRow
from controlplane.operations.scheduled.wishes import ScheduleWish

REASON_CHARS_MAX = 500
WRITE = "write"
_SOURCE = {"source": {"kind": "parquet", "path": "/data/new.parquet"}, "operation": "upsert"}


class ScheduleForm(forms.Form):
    name = forms.CharField(
        max_length=64,
        help_text="a-z, A-Z, 0-9, spaces, _, . and -",
        error_messages={"required": "Enter a name."},
    )
    what = forms.ChoiceField()
    parameters = forms.CharField(max_length=20_000, required=False)
    trigger = forms.ChoiceField(
        choices=[("every", "at an interval"), ("cron", "by cron"), ("after", "after a schedule")]
    )
    every_minutes = forms.IntegerField(
        min_value=EVERY_S_MIN // 60,
        max_value=EVERY_S_MAX // 60,
        required=False,
        initial=60,
        help_text="starting when the schedule is saved",
    )
    cron = forms.CharField(
        max_length=CRON_CHARS_MAX,
        required=False,
        help_text="minute, hour, day of the month, month, day of the week: 30 2 * * 1-5",
    )
    time_zone = forms.CharField(
        max_length=64, required=False, initial="UTC", help_text="such as Europe/Oslo"
    )
    after = forms.ChoiceField(required=False)
    reason = forms.CharField(max_length=REASON_CHARS_MAX, required=False)

    def __init__(self, *args: Any, others: Sequence[ScheduleRow] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        services = [(name, get_service(name).title) for name in schedulable_services()]
        self.fields["what"] = forms.ChoiceField(choices=[(WRITE, "Write"), *services])
        named = [(str(other.id), f"{other.name} of {other.table_slug}") for other in others]
        self.fields["after"] = forms.ChoiceField(choices=[("", "none"), *named], required=False)

    @classmethod
    def of(
        cls, row: ScheduleRow | None, others: Sequence[ScheduleRow], parameters: str = ""
    ) -> ScheduleForm:
        """Filled in with what a schedule is; a new one with `parameters` of a write, or an example
        of some.
        """
        if row is None:
            shown = parameters or json.dumps(_SOURCE, indent=2)
            return cls(others=others, initial={"what": WRITE, "parameters": shown})
        return cls(
            others=others,
            initial={
                "name": row.name,
                "what": row.service or row.kind,
                "parameters": json.dumps(row.parameters, indent=2),
                "trigger": row.trigger,
                "every_minutes": row.every_s // 60 or 60,
                "cron": row.cron,
                "time_zone": row.time_zone,
                "after": str(row.after_schedule_id or ""),
            },
        )

    def clean_parameters(self) -> dict[str, Any]:
        text = str(self.cleaned_data["parameters"]).strip() or "{}"
        try:
            parameters = json.loads(text)
        except ValueError as error:
            raise forms.ValidationError(f"Invalid JSON: {error}.") from error
        if not isinstance(parameters, dict):
            raise forms.ValidationError("Enter a JSON object: {...}.")
        return parameters

    def clean(self) -> dict[str, Any]:
        words = dict(super().clean() or {})
        needed = {"every": "every_minutes", "cron": "cron", "after": "after"}
        field = needed.get(str(words.get("trigger")))
        if field is not None and field not in self.errors and not words.get(field):
            self.add_error(field, "Enter when the schedule is due.")
        if words.get("what", WRITE) != WRITE and "source" in words.get("parameters", {}):
            service = get_service(words["what"]).title
            self.add_error(
                "parameters",
                f"These are parameters of a write. Enter those of {service}, or {{}} for none.",
            )
        return words

    def wish(self) -> ScheduleWish:
        """The schedule that a valid form asks for."""
        words = self.cleaned_data
        trigger, what = words["trigger"], words["what"]
        return ScheduleWish(
            name=words["name"].strip(),
            kind=WRITE if what == WRITE else "service",
            service="" if what == WRITE else what,
            parameters=words["parameters"],
            every_s=words["every_minutes"] * 60 if trigger == "every" else 0,
            cron=words["cron"] if trigger == "cron" else "",
            time_zone=(words["time_zone"] or "UTC") if trigger == "cron" else "UTC",
            after_schedule=UUID(words["after"]) if trigger == "after" else None,
        )
