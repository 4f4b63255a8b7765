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
            "required": "Enter an interval.",
            "min_value": "Enter at least 1 minute.",
            "max_value": "Enter at most one week (10,080 minutes).",
        },
    )
    trigger_commits = forms.IntegerField(
        min_value=0,
        max_value=100_000,
        error_messages={
            "required": "Enter a number; 0 does not wait for commits.",
            "min_value": "Enter 0 or more.",
        },
    )
