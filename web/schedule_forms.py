"""The form of a schedule. The control plane checks every value again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django import forms

from controlplane.operations.descriptions.schedules import CREATE_SCHEDULE
from controlplane.operations.descriptions.services import get_service
from controlplane.operations.permissions import schedulable_services
from controlplane.operations.scheduled.queries import ScheduleRow
from controlplane.operations.scheduled.wishes import ScheduleWish
from web.request_forms import RequestForm

WRITE = "write"
_SOURCE = {"source": {"kind": "parquet", "path": "/data/new.parquet"}, "operation": "upsert"}


class ScheduleForm(RequestForm):
    """A schedule of one table."""

    description = CREATE_SCHEDULE

    def __init__(self, *args: Any, others: Sequence[ScheduleRow] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        services = [(name, get_service(name).title) for name in schedulable_services()]
        named = [(str(other.id), f"{other.name} of {other.table_slug}") for other in others]
        self._offer("what", [(WRITE, "Write"), *services])
        self._offer("after", [("", "none"), *named])
        for name in ("every_minutes", "after"):
            self.fields[name].required = False

    def _offer(self, name: str, choices: Sequence[tuple[str, str]]) -> None:
        self.fields[name] = forms.ChoiceField(choices=choices, label=self.fields[name].label)

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
