"""The form that starts a sink; the engine checks everything again."""

from __future__ import annotations

from typing import Any

from django import forms

from controlplane.operations.descriptions.write import BROKER
from web.connection_choice import check_broker, connection_field
from web.option_lines import options_of

REASON_CHARS_MAX = 500
_RELAUNCHES = [(0, "never"), (3, "3 times in a row"), (10, "10 times in a row")]
_FIELDS = {
    "topic": "hoodie.kafka.topic",
    "connection": "connection",
    "bootstrap": "bootstrap.servers",
    "sink_id": "hoodie.sink.id",
    "control_topic": "hoodie.kafka.control.topic",
    "mode": "hoodie.sink.mode",
    "format": "hoodie.sink.format",
    "source": "hoodie.sink.schema.source",
    "schema_file": "hoodie.sink.schema.file",
    "start_offsets": "hoodie.kafka.start.offsets",
    "interval_s": "hoodie.kafka.commit.interval.secs",
    "on_bad_record": "hoodie.sink.on.bad.record",
    "protocol": "security.protocol",
    "mechanism": "sasl.mechanism",
    "username": "sasl.username",
    "password_env": "sasl.password.env",
}
_SECURITY = ("protocol", "mechanism", "username", "password_env")
_NOT_SECURED = [("", "not secured")]


class SinkForm(forms.Form):
    topic = forms.CharField(max_length=249, error_messages={"required": "Name the topic."})
    bootstrap = forms.CharField(
        max_length=1000,
        required=False,
        initial=BROKER,
        help_text="host:port, several with commas",
    )
    sink_id = forms.CharField(
        max_length=100,
        required=False,
        help_text="the topic's name when empty; it keeps the offsets",
    )
    control_topic = forms.CharField(
        max_length=249, required=False, help_text="hudi-control-topic when empty"
    )
    mode = forms.ChoiceField(
        choices=[("append", "append: each record is a row"), ("upsert", "upsert: by the key")]
    )
    format = forms.ChoiceField(choices=[("json", "JSON"), ("avro", "Avro"), ("csv", "CSV")])
    source = forms.ChoiceField(
        choices=[
            ("table", "the table's columns"),
            ("infer", "the table's, and new fields become columns"),
            ("registry_file", "a file of schema ids"),
        ]
    )
    schema_file = forms.CharField(
        max_length=700,
        required=False,
        help_text="below a source root, for a file of schema ids",
    )
    start_offsets = forms.CharField(
        max_length=2_000,
        required=False,
        help_text=(
            'earliest, latest or {"0": 17}; only needed where the table has rows and no offsets of '
            "this sink"
        ),
    )
    interval_s = forms.IntegerField(
        min_value=1,
        max_value=86_400,
        initial=60,
        error_messages={"required": "Say how often it commits, in seconds."},
    )
    on_bad_record = forms.ChoiceField(
        choices=[("dead_letter", "goes to the dead letters"), ("fail", "stops the sink")]
    )
    protocol = forms.ChoiceField(
        required=False,
        choices=[*_NOT_SECURED, *((one, one) for one in ("SSL", "SASL_SSL", "SASL_PLAINTEXT"))],
    )
    mechanism = forms.ChoiceField(
        required=False,
        choices=[
            ("", "none"),
            *((one, one) for one in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
        ],
    )
    username = forms.CharField(max_length=200, required=False)
    password_env = forms.CharField(
        max_length=100,
        required=False,
        help_text=("SLUICE_KAFKA_…, set where the node runs; the password itself is never stored"),
    )
    more = forms.CharField(max_length=10_000, required=False)
    application = forms.ChoiceField(
        choices=[("own", "an application of its own"), ("connect", "the node's Spark server")],
        help_text="a sink keeps its slots for ever",
    )
    relaunches_max = forms.TypedChoiceField(
        coerce=int, choices=_RELAUNCHES, help_text="with growing pauses, 10 s to 10 min"
    )
    reason = forms.CharField(
        max_length=REASON_CHARS_MAX,
        required=False,
        error_messages={"max_length": "Enter at most 500 characters."},
    )

    def __init__(self, *args: Any, namespace: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["connection"] = connection_field(namespace)

    def clean(self) -> dict[str, Any]:
        words = dict(super().clean() or {})
        return {**words, "bootstrap": check_broker(self, words, _SECURITY)}

    def clean_more(self) -> dict[str, str]:
        """One `key=value` a line."""
        return options_of(str(self.cleaned_data["more"]))

    @property
    def options(self) -> dict[str, str]:
        given = {key: self.cleaned_data[name] for name, key in _FIELDS.items()}
        texts = {key: str(value) for key, value in given.items() if value not in ("", None)}
        return {**texts, **self.cleaned_data["more"]}
