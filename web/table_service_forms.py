"""The form of a service's schedule."""

from __future__ import annotations

from django import forms


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
