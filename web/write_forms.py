"""The form of one write: from where, how, and what the table does with the rows. Which fields it
has depends on the kind of source. All of it is checked again by whoever takes the request.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django import forms

from controlplane.errors import ControlPlaneError
from controlplane.operations.actions import PLANNED_OPERATIONS
from web.connection_choice import BROKER, check_broker, connection_field
from web.option_lines import options_of
from web.refusals import explained
from web.table_service_words import chosen, text_of

REASON_CHARS_MAX = 500
STATEMENT_CHARS_MAX = 20_000
ADDRESS_CHARS_MAX = 6_000
"""Of what is handed on to another page's form."""
SOURCES: Mapping[str, str] = {
    "csv": "CSV file",
    "json": "JSON lines",
    "parquet": "Parquet file",
    "sql": "SQL over tables",
    "kafka": "Kafka topic",
    "postgresql": "PostgreSQL",
}
"""What a write may come from, as the links over the form say it."""
PREVIEWED = ("csv", "json", "parquet", "sql", "postgresql")
"""A topic is read when the write begins, and not before."""
_OPERATIONS = [
    ("upsert", "upsert: rows whose key is there are replaced"),
    ("insert", "insert: the rows go in as they are"),
    ("bulk_insert", "bulk insert: many new rows, no look for their keys"),
]
_PLANNED = [
    ("delete", "delete the rows with these keys: planned first"),
    ("insert_overwrite", "overwrite the partitions of these rows: planned first"),
    ("insert_overwrite_table", "overwrite the whole table: planned first"),
]
_PLANNED_FROM = ("csv", "parquet")
_OVERWRITES = [
    ("insert_overwrite", "overwrite the partitions of these rows: by a schedule"),
    ("insert_overwrite_table", "overwrite the whole table: by a schedule"),
]
"""From any other source. Once, with a plan, it is asked for over REST."""
_BEGINS = [
    ("earliest", "its first record"),
    ("offsets", "offsets by partition"),
    ("time", "a time"),
]
_PROTOCOLS = [
    ("", "not secured"),
    *((name, name) for name in ("SSL", "SASL_SSL", "SASL_PLAINTEXT")),
]
_MECHANISMS = [
    ("", "none"),
    *((name, name) for name in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
]
_SASL_SOURCE = ("protocol", "mechanism", "username", "password_env", "ca")
_FIELDS: Mapping[str, Sequence[str]] = {
    "csv": ("connection", "path", "missing", "columns", "key", "key_from"),
    "json": ("connection", "path"),
    "parquet": ("connection", "path"),
    "sql": ("statement",),
    "postgresql": ("connection", "table", "query"),
    "kafka": (
        "topic", "connection", "bootstrap", "format", "csv_columns", "begins", "start", "start_at",
        *_SASL_SOURCE,
    ),
}  # fmt: skip
_CONNECTIONS = {"kafka": "kafka", "postgresql": "postgresql"}
"""The kind of connection that a source has; of files, s3."""
_OF_ANY_SOURCE = {name for names in _FIELDS.values() for name in names}
_NOT_SENT = {"begins", "start", "start_at"}


def build_initial(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the form for such parameters as `WriteForm.parameters` returns."""
    source = dict(parameters["source"])
    options = parameters.get("options") or {}
    return {
        **{name: text for name, text in source.items() if name in _OF_ANY_SOURCE - _NOT_SENT},
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


class WriteForm(forms.Form):
    """One write from a source of one kind, of `SOURCES`."""

    path = forms.CharField(
        label="File",
        max_length=700,
        help_text="an absolute path below a source root, s3://bucket/name, or with a connection "
        "the path below its prefix",
        error_messages={"required": "Say which file."},
    )
    missing = forms.CharField(
        label="The word for a missing value", max_length=50, required=False, initial="NA"
    )
    columns = forms.CharField(
        label="Columns", max_length=4000, required=False, help_text="with commas; all when empty"
    )
    key = forms.CharField(
        label="Make a key column",
        max_length=255,
        required=False,
        help_text="its name, where the file has no key of its own",
    )
    key_from = forms.CharField(
        label="Made of", max_length=4000, required=False, help_text="columns, with commas"
    )
    statement = forms.CharField(
        label="Statement",
        max_length=STATEMENT_CHARS_MAX,
        help_text="one SELECT over tables whose rows you may read, by slug or namespace.slug",
        error_messages={"required": "Write one SELECT."},
    )
    table = forms.CharField(
        label="Table", max_length=130, required=False, help_text="schema.name, or write a query"
    )
    query = forms.CharField(
        label="Query",
        max_length=STATEMENT_CHARS_MAX,
        required=False,
        help_text="one SELECT that the database runs, in a read-only transaction",
    )
    topic = forms.CharField(
        label="Topic", max_length=249, error_messages={"required": "Name the topic."}
    )
    bootstrap = forms.CharField(
        label="Broker",
        max_length=1000,
        required=False,
        initial=BROKER,
        help_text="host:port, several with commas",
    )
    format = forms.ChoiceField(label="Values are", choices=[("json", "JSON"), ("csv", "CSV")])
    csv_columns = forms.CharField(
        label="Columns of CSV values", max_length=4000, required=False, help_text="with commas"
    )
    begins = forms.ChoiceField(label="Begins at", choices=_BEGINS)
    start = forms.CharField(
        label="Offsets", max_length=2000, required=False, help_text='JSON: {"0": 17}'
    )
    start_at = forms.DateTimeField(
        label="Time, UTC",
        required=False,
        help_text="2026-01-31 14:00",
        error_messages={"invalid": "Write a time as 2026-01-31 14:00."},
    )
    protocol = forms.ChoiceField(label="Protocol", required=False, choices=_PROTOCOLS)
    mechanism = forms.ChoiceField(label="SASL mechanism", required=False, choices=_MECHANISMS)
    username = forms.CharField(label="User", max_length=200, required=False)
    password_env = forms.CharField(
        label="Variable that holds the password",
        max_length=100,
        required=False,
        help_text="SLUICE_KAFKA_…, set where the node runs; the password itself is never stored",
    )
    ca = forms.CharField(
        label="File of certificates",
        max_length=700,
        required=False,
        help_text="a PEM below SLUICE_KAFKA_CA_FOLDER",
    )
    operation = forms.ChoiceField()
    stream = forms.CharField(
        max_length=100, required=False, help_text="only for tables with column groups"
    )
    more = forms.CharField(max_length=10_000, required=False)
    reason = forms.CharField(
        max_length=REASON_CHARS_MAX,
        required=False,
        error_messages={"max_length": "Keep it under 500 characters."},
    )
    idempotency_key = forms.UUIDField(initial=uuid.uuid4)
    again = forms.UUIDField(required=False, widget=forms.HiddenInput)
    """The operation whose parameters the form was filled with."""

    def __init__(self, *args: Any, kind: str, namespace: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind = kind
        if kind != "sql":
            self.fields["connection"] = connection_field(namespace, _CONNECTIONS.get(kind, "s3"))
        for name in (_OF_ANY_SOURCE - set(_FIELDS[kind])) & set(self.fields):
            del self.fields[name]
        planned = _PLANNED if kind in _PLANNED_FROM else _OVERWRITES
        self.fields["operation"] = forms.ChoiceField(choices=[*_OPERATIONS, *planned])

    @property
    def source_fields(self) -> list[forms.BoundField]:
        """Those of this kind of source, but for what secures a broker."""
        return [self[name] for name in _FIELDS[self.kind] if name not in _SASL_SOURCE]

    @property
    def security_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in _FIELDS[self.kind] if name in _SASL_SOURCE]

    @property
    def is_previewed(self) -> bool:
        return self.kind in PREVIEWED

    def clean_more(self) -> dict[str, str]:
        return options_of(str(self.cleaned_data["more"]))

    def clean(self) -> dict[str, Any]:
        words = dict(super().clean() or {})
        if self.kind == "kafka":
            words["bootstrap"] = check_broker(self, words, _SASL_SOURCE)
        if self.kind == "postgresql" and bool(words.get("table")) == bool(words.get("query")):
            self.add_error("table", "Name a table or write a query, one of the two.")
        needed = {"offsets": "start", "time": "start_at"}.get(str(words.get("begins")))
        if needed is not None and needed not in self.errors and not words.get(needed):
            self.add_error(needed, "Say where the read begins.")
        if words.get("operation") in PLANNED_OPERATIONS and self.data.get("deed") != "schedule":
            self._check_plan_takes(words)
        return words

    def _check_plan_takes(self, words: Mapping[str, Any]) -> None:
        """The page of a plan has fewer fields; what it would leave out is refused here."""
        if self.kind not in _PLANNED_FROM:
            if self.data.get("deed") != "preview":
                refusal = "Rows of this source overwrite by a schedule, or over REST with a plan."
                self.add_error("operation", refusal)
            return
        taken = set(chosen(str(words["operation"]), dict.fromkeys(_FIELDS[self.kind], "x")))
        usual = {"missing": "NA"}
        title = text_of(str(words["operation"])).title
        for name in _FIELDS[self.kind]:
            if name not in taken and words.get(name) not in ("", None, usual.get(name)):
                self.add_error(name, f"“{title}” does not take this.")

    @property
    def source(self) -> dict[str, Any]:
        """The source of a valid form, as a write takes it; what was left empty is left out."""
        words = self.cleaned_data
        named = {
            name: str(words[name])
            for name in _FIELDS[self.kind]
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
