"""What a person may choose before a table service is planned, and how the page says it.

The engine checks every parameter again; a name that is not listed here is not offered.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django import forms

from controlplane.operations.services import ServicePlanView

REASON_CHARS_MAX = 500
PARAMETER_CHARS_MAX = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One parameter of a service; an empty value leaves it to the engine."""

    name: str
    label: str
    hint: str = ""
    options: Sequence[str] = ()
    kind: str = "text"
    is_needed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceText:
    """What the pages say of a service."""

    title: str
    verb: str
    purpose: str
    takes: str = ""
    """What is gone for good afterwards; empty for what loses nothing."""
    choices: Sequence[Choice] = field(default_factory=tuple)


_INSTANT = Choice(
    name="instant", label="Instant", hint="17 digits, as on the timeline", is_needed=True
)
TEXTS: Mapping[str, ServiceText] = {
    "compaction": ServiceText(
        title="Compaction",
        verb="Compact",
        purpose="Merges log files into new base files, so that reads need not merge them again.",
        choices=(
            Choice(
                name="hoodie.compaction.strategy",
                label="File groups in the order of",
                options=(
                    "LogFileSizeBasedCompactionStrategy",
                    "LogFileNumBasedCompactionStrategy",
                    "BoundedIOCompactionStrategy",
                    "UnBoundedCompactionStrategy",
                ),
            ),
            Choice(name="hoodie.compaction.target.io", label="At most, in MB", kind="number"),
            Choice(
                name="hoodie.compaction.logfile.num.threshold",
                label="With at least, logs",
                kind="number",
            ),
        ),
    ),
    "clustering": ServiceText(
        title="Clustering",
        verb="Cluster",
        purpose="Rewrites file groups with their rows in another order, so that reads skip more.",
        choices=(
            Choice(
                name="hoodie.clustering.plan.strategy.sort.columns",
                label="Sort by",
                hint="column names, separated by commas; a pending plan has its own",
            ),
            Choice(
                name="hoodie.layout.optimize.strategy",
                label="Layout",
                options=("linear", "z-order"),
            ),
            Choice(
                name="hoodie.clustering.plan.strategy.partition.selected",
                label="Partitions",
                hint="separated by commas; all when empty",
            ),
        ),
    ),
    "clean": ServiceText(
        title="Cleaning",
        verb="Clean",
        purpose="Deletes file versions that no snapshot, savepoint or pending plan needs.",
        takes="Time travel to before what is kept.",
        choices=(
            Choice(
                name="hoodie.clean.policy",
                label="Keep by",
                options=(
                    "KEEP_LATEST_COMMITS",
                    "KEEP_LATEST_BY_HOURS",
                    "KEEP_LATEST_FILE_VERSIONS",
                ),
            ),
            Choice(name="hoodie.clean.commits.retained", label="Commits kept", kind="number"),
            Choice(name="hoodie.clean.hours.retained", label="Hours kept", kind="number"),
            Choice(name="hoodie.clean.fileversions.retained", label="Versions kept", kind="number"),
            Choice(
                name="sluice.reader.retention.minutes",
                label="Longest reader, minutes",
                kind="number",
            ),
        ),
    ),
    "archive": ServiceText(
        title="Archiving",
        verb="Archive",
        purpose="Moves old instants into the history, so that listings of the timeline stay short.",
        choices=(
            Choice(name="hoodie.keep.min.commits", label="Commits that stay", kind="number"),
            Choice(name="hoodie.keep.max.commits", label="Begin above", kind="number"),
        ),
    ),
    "savepoint": ServiceText(
        title="Savepoint",
        verb="Create the savepoint",
        purpose="Keeps the files of one completed instant until the savepoint is deleted.",
        choices=(_INSTANT, Choice(name="comment", label="Comment", hint="What it is kept for")),
    ),
    "delete_savepoint": ServiceText(
        title="Delete a savepoint",
        verb="Delete the savepoint",
        purpose="Lets the cleaner take the files that only this savepoint keeps.",
        takes="The way back to that state, once the cleaner has run.",
        choices=(_INSTANT,),
    ),
    "restore": ServiceText(
        title="Restore",
        verb="Restore",
        purpose="Puts the table back to a savepoint by undoing every later instant, newest first.",
        takes="Every write after that instant.",
        choices=(_INSTANT,),
    ),
    "delete": ServiceText(
        title="Delete rows",
        verb="Delete the rows",
        purpose="Deletes rows by key or by predicate, as one commit that can be rolled back.",
        takes="The rows it names.",
        choices=(
            Choice(name="keys", label="Keys", hint="JSON, a list of keys", kind="area"),
            Choice(name="predicate", label="Predicate", hint="such as city = 'Oslo'"),
        ),
    ),
    "delete_partition": ServiceText(
        title="Delete partitions",
        verb="Delete the partitions",
        purpose="Takes whole partitions out of the table, as one commit that can be rolled back.",
        takes="Every row of the partitions it names.",
        choices=(
            Choice(
                name="partitions",
                label="Partitions",
                hint="paths, separated by commas",
                is_needed=True,
            ),
        ),
    ),
}


def text_of(service: str) -> ServiceText:
    """A service that the engine has gained since has a title at least."""
    title = service.replace("_", " ").capitalize()
    return TEXTS.get(service) or ServiceText(title=title, verb=f"Run {title.lower()}", purpose="")


def chosen(service: str, asked: Mapping[str, str]) -> dict[str, str]:
    """The parameters that a request names, as the engine takes them."""
    values = {one.name: asked.get(one.name, "").strip() for one in text_of(service).choices}
    return {name: value[:PARAMETER_CHARS_MAX] for name, value in values.items() if value}


def missing(service: str, parameters: Mapping[str, str]) -> list[Choice]:
    return [one for one in text_of(service).choices if one.is_needed and one.name not in parameters]


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
