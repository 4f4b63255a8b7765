"""The form of one write: from where, how, and what the table does with the rows. Which fields it
has depends on the kind of source. All of it is checked again by whoever takes the request.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django import forms

from controlplane.errors import ControlPlaneError
from controlplane.operations.descriptions.services import get_service, read_parameters
from controlplane.operations.descriptions.write import (
    BROKER_SECURITY,
    PLANNED_OPERATIONS,
    READING,
    SECURITY,
    SOURCE,
    WRITE,
    list_parts,
    part_names,
)
from web.connection_choice import check_broker, connection_field
from web.refusals import explained
from web.request_forms import RequestForm

ADDRESS_CHARS_MAX = 6_000
"""Of what is handed on to another page's form."""
SOURCES: Mapping[str, str] = {
    "csv": "CSV file",
    "json": "JSON lines",
    "parquet": "Parquet file",
    "arrow": "Arrow file",
    "sql": "SQL over tables",
    "kafka": "Kafka topic",
    "postgresql": "PostgreSQL",
}
"""What a write may come from, as the links over the form say it."""
PREVIEWED = ("csv", "json", "parquet", "arrow", "sql", "postgresql")
"""A topic is read when the write begins, and not before."""
_PLANNED_FROM = ("csv", "json", "parquet", "arrow")
"""From any other source an overwrite runs by a schedule, or once over REST with a plan."""
_CONNECTIONS = {"kafka": "kafka", "postgresql": "postgresql"}
"""The kind of connection that a source has; of files, s3."""
_NOT_SENT = {"start", "start_at_ms"}


def build_initial(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the form for such parameters as `WriteForm.parameters` returns."""
    source = dict(parameters["source"])
    names = [name for name in part_names(str(source["kind"])) if name not in _NOT_SENT]
    options = parameters.get("options") or {}
    return {
        **{name: source[name] for name in names if name in source},
        **_build_start(source),
        "operation": parameters.get("operation") or "upsert",
        "stream": parameters.get("stream") or "",
        "more": "\n".join(f"{key}={text}" for key, text in sorted(options.items())),
    }


def _build_start(source: Mapping[str, Any]) -> dict[str, Any]:
    if (start_ms := source.get("start_at_ms")) is not None:
        return {"begins": "time", "start_at": datetime.fromtimestamp(int(start_ms) / 1000, UTC)}
    start = source.get("start") or "earliest"
    return {"begins": start} if start == "earliest" else {"begins": "offsets", "start": start}


class WriteForm(RequestForm):
    """One write from a source of one kind, of `SOURCES`."""

    description = WRITE
    idempotency_key = forms.UUIDField(initial=uuid.uuid4)
    again = forms.UUIDField(required=False, widget=forms.HiddenInput)
    """The operation whose parameters the form was filled with."""

    def __init__(self, *args: Any, kind: str, namespace: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind = kind
        self.parts = {part.form_name: part for part in list_parts(kind) if part.form_name}
        for part in SOURCE.parts:
            if part.form_name not in self.parts:
                self.fields.pop(part.form_name, None)
        if "connection" in self.parts:
            self.fields["connection"] = connection_field(namespace, _CONNECTIONS.get(kind, "s3"))
        self.fields["operation"] = forms.ChoiceField(choices=_operations(kind))

    @property
    def source_fields(self) -> list[forms.BoundField]:
        """Those of this kind of source, but for what secures a broker and how a file is read."""
        return self.group("Source")

    @property
    def reading_fields(self) -> list[forms.BoundField]:
        return self.group(READING)

    @property
    def security_fields(self) -> list[forms.BoundField]:
        return self.group(SECURITY)

    @property
    def is_previewed(self) -> bool:
        return self.kind in PREVIEWED

    def clean(self) -> dict[str, Any]:
        words = dict(super().clean() or {})
        if self.kind == "kafka":
            words["bootstrap"] = check_broker(
                self, words, [field.name for field in BROKER_SECURITY]
            )
        if self.kind == "postgresql" and bool(words.get("table")) == bool(words.get("query")):
            self.add_error("table", "Enter either a table or a query.")
        needed = {"offsets": "start", "time": "start_at"}.get(str(words.get("begins")))
        if needed is not None and needed not in self.errors and not words.get(needed):
            self.add_error(needed, "Enter where the read starts.")
        if words.get("operation") in PLANNED_OPERATIONS and self.data.get("deed") != "schedule":
            self._check_plan_takes(words)
        return words

    def _check_plan_takes(self, words: Mapping[str, Any]) -> None:
        """The page of a plan has fewer fields; what it would leave out is refused here."""
        if self.kind not in _PLANNED_FROM:
            if self.data.get("deed") != "preview":
                refusal = (
                    "This source can overwrite only by a schedule, or over REST with a plan: its "
                    "rows are read when the write runs, so this page has no sample rows to confirm."
                )
                self.add_error("operation", refusal)
            return
        taken = set(read_parameters(str(words["operation"]), dict.fromkeys(self.parts, "x")))
        title = get_service(str(words["operation"])).title
        for name, part in self.parts.items():
            if name not in taken and words.get(name) not in ("", None, part.default):
                self.add_error(name, f"“{title}” does not accept this.")

    @property
    def source(self) -> dict[str, Any]:
        """The source of a valid form, as a write takes it; what was left empty is left out."""
        words = self.cleaned_data
        named = {
            name: str(words[name])
            for name in part_names(self.kind)
            if name not in _NOT_SENT and words.get(name)
        }
        return {"kind": self.kind, **named, **(self._start() if self.kind == "kafka" else {})}

    def _start(self) -> dict[str, Any]:
        words = self.cleaned_data
        if words["begins"] == "time":
            moment = words["start_at"].astimezone(UTC)
            return {"start_at_ms": round(moment.timestamp() * 1000)}
        return {"start": words["start"] if words["begins"] == "offsets" else "earliest"}

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of a valid form, as an operation of the kind `write` takes them."""
        words = self.cleaned_data
        stream = {"stream": words["stream"]} if words["stream"] else {}
        options = {"options": words["more"]} if words["more"] else {}
        return {"source": self.source, "operation": words["operation"], **stream, **options}

    @property
    def changes(self) -> dict[str, Any]:
        """Parameters of a valid form for a rerun, where empty fields replace values."""
        return {"stream": None, "options": {}, **self.parameters}

    def refuse(self, error: ControlPlaneError) -> str:
        """Puts the refusal beside its field; what belongs to none is returned, else nothing."""
        by_value = {"option": "more", "fields": "more", "source": "path"}
        named = [by_value.get(name, name) for name in error.values]
        field = next((name for name in named if name in self.fields), "")
        if self.kind == "sql" and field in ("", "columns"):
            field = "statement"
        if not field:
            return explained(error)
        self.add_error(field, explained(error))
        return ""


def _operations(kind: str) -> list[tuple[str, str]]:
    """Return what the table may do with the rows of such a source."""
    is_planned_here = kind in _PLANNED_FROM
    how = "plan first" if is_planned_here else "schedule only"
    left_out = {"delete_partition"} if is_planned_here else {"delete_partition", "delete"}
    return [
        (choice.value, f"{choice.label} ({how})" if choice.is_planned else choice.label)
        for choice in WRITE["operation"].choices
        if choice.value not in left_out
    ]
