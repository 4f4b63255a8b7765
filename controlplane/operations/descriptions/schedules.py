"""Schedules: create, change, pause; and automatic runs of a table service."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from controlplane.operations.descriptions.field import (
    REASON,
    Choice,
    Description,
    Field,
    FieldType,
)
from controlplane.operations.descriptions.services import SERVICE
from controlplane.operations.scheduled.due_times import CRON_CHARS_MAX, EVERY_S_MAX, EVERY_S_MIN
from controlplane.operations.schedules import EVERY_S_DEFAULT, TRIGGER_COMMITS_MAX
from controlplane.operations.schedules import EVERY_S_MAX as SERVICE_EVERY_S_MAX
from controlplane.operations.schedules import EVERY_S_MIN as SERVICE_EVERY_S_MIN
from controlplane.tables.access import Permission

CREATE_SCHEDULE: Final = Description(
    name="schedule",
    purpose="Create a schedule that runs as you. Exactly one of `every_s`, `cron`, "
    "`after_schedule` and `after_operation` is needed.",
    address="tables/{slug}/schedules/",
    body="ScheduleRequest",
    call="create_schedule",
    answer="ScheduleRow",
    permission=Permission.OPERATE,
    command="schedule add",
    takes_key=False,
    fields=(
        Field(
            "name",
            "Name",
            "a-z, A-Z, 0-9, spaces, _, . and -",
            chars_max=64,
            is_needed=True,
            is_first=True,
            refusal="Enter a name.",
            argument="name",
        ),
        Field(
            "kind",
            "Kind",
            choices=(Choice("service"), Choice("write")),
            is_needed=True,
            is_first=True,
            in_form="",
            argument="",  # A service is named, or it is a write.
        ),
        Field(
            "service",
            "Service",
            "A table service; empty for a write.",
            chars_max=32,
            may_be_blank=True,
            in_form="",
        ),
        Field("what", "Operation", is_in_body=False, argument=""),
        Field(
            "parameters",
            "Parameters",
            "Source, operation and options of a write, or parameters of the service.",
            type=FieldType.OBJECT,
            default=dict,
            chars_max=20_000,
        ),
        Field(
            "trigger",
            "Trigger",
            choices=(
                Choice("every", "at an interval"),
                Choice("cron", "by cron"),
                Choice("after", "after a schedule"),
            ),
            is_in_body=False,
            argument="",
        ),
        Field(
            "every_s",
            "Interval, in seconds",
            "Counted from when the schedule is saved.",
            type=FieldType.NUMBER,
            default=0,
            least=EVERY_S_MIN,
            most=EVERY_S_MAX,
            in_form="",
        ),
        Field(
            "every_minutes",
            "Interval, in minutes",
            "Counted from when the schedule is saved.",
            type=FieldType.NUMBER,
            default=60,
            least=EVERY_S_MIN // 60,
            most=EVERY_S_MAX // 60,
            is_in_body=False,
            argument="",
        ),
        Field(
            "cron",
            "Cron expression",
            "Minute, hour, day of the month, month, day of the week: 30 2 * * 1-5.",
            chars_max=CRON_CHARS_MAX,
            may_be_blank=True,
        ),
        Field(
            "time_zone",
            "Time zone of the cron expression",
            "For the cron expression, such as Europe/Oslo.",
            chars_max=64,
            default="UTC",
        ),
        Field(
            "after_schedule",
            "After success of",
            "The id of a schedule: each of its successes makes this one due.",
            type=FieldType.ID,
            default=None,
            in_form="after",
            argument="--after",
        ),
        Field(
            "after_operation",
            "After an operation",
            "The id of an operation: its success makes the schedule due, once.",
            type=FieldType.ID,
            default=None,
            in_form="",
        ),
        REASON,
    ),
)
CHANGE_SCHEDULE: Final = replace(
    CREATE_SCHEDULE,
    name="schedule.change",
    purpose="Replace all settings of a schedule. It runs as you from then on.",
    address="tables/{slug}/schedules/{schedule_id}/",
    method="PUT",
    call="change_schedule",
    command="",
)
PAUSE_SCHEDULE: Final = Description(
    name="schedule.pause",
    purpose="Pause a schedule or resume it. Due times of the pause are skipped.",
    address="tables/{slug}/schedules/{schedule_id}/pause/",
    body="PauseRequest",
    call="pause_schedule",
    answer="ScheduleRow",
    permission=Permission.OPERATE,
    takes_key=False,
    fields=(
        Field(
            "is_paused",
            "Paused",
            "False resumes it.",
            type=FieldType.FLAG,
            is_needed=True,
            is_first=True,
        ),
        REASON,
    ),
)
SET_SERVICE: Final = Description(
    name="service.schedule",
    purpose="Set whether and when a table service runs automatically.",
    address="tables/{slug}/services/{service}/schedule/",
    method="PUT",
    body="ServiceSettingRequest",
    call="schedule_service",
    answer="ServiceSettingRow",
    permission=Permission.ADMINISTER,
    takes_key=False,
    fields=(
        Field("enabled", "Run automatically", type=FieldType.FLAG, is_needed=True, is_first=True),
        Field(
            "every_s",
            "At most every (seconds)",
            type=FieldType.NUMBER,
            default=EVERY_S_DEFAULT,
            least=SERVICE_EVERY_S_MIN,
            most=SERVICE_EVERY_S_MAX,
            in_form="",
        ),
        Field(
            "every_minutes",
            "At most every (minutes)",
            type=FieldType.NUMBER,
            is_needed=True,
            least=1,
            most=7 * 24 * 60,
            refusal="Enter an interval.",
            is_in_body=False,
        ),
        Field(
            "trigger_commits",
            "Minimum number of new commits",
            "0: do not wait for commits.",
            type=FieldType.NUMBER,
            default=0,
            least=0,
            most=TRIGGER_COMMITS_MAX,
            refusal="Enter a number; 0 does not wait for commits.",
        ),
        replace(SERVICE["parameters"], is_first=False),
    ),
)
