"""The form that starts a sink."""

from __future__ import annotations

from typing import Any

from django import forms

from controlplane.operations.descriptions.sinks import SINK_PARTS, SINK_SECURITY, START_SINK
from web.connection_choice import check_broker, connection_field
from web.request_forms import RequestForm

_RELAUNCHES = [(0, "never"), (3, "3 times in a row"), (10, "10 times in a row")]
_HEADINGS = ("Source", "Table", "Broker security", "Execution")


class SinkForm(RequestForm):
    """A sink of one table; the engine checks everything again."""

    description = START_SINK
    relaunches_max = forms.TypedChoiceField(
        coerce=int,
        choices=_RELAUNCHES,
        label=START_SINK["relaunches_max"].label,
        help_text="With growing pauses, 10 s to 10 min.",
    )

    def __init__(self, *args: Any, namespace: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["connection"] = connection_field(namespace)

    @property
    def groups(self) -> list[tuple[str, list[forms.BoundField]]]:
        """The headings with their fields."""
        return [(heading, self.group(heading)) for heading in _HEADINGS]

    def clean(self) -> dict[str, Any]:
        words = dict(super().clean() or {})
        others = [field.name for field in SINK_SECURITY]
        return {**words, "bootstrap": check_broker(self, words, others)}

    @property
    def options(self) -> dict[str, str]:
        given = {part.body_key: self.cleaned_data[part.form_name] for part in SINK_PARTS}
        texts = {key: str(value) for key, value in given.items() if value not in ("", None)}
        return {**texts, **self.cleaned_data["more"]}
