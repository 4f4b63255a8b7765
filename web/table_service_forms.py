"""The form of a service's schedule."""

from __future__ import annotations

from controlplane.operations.descriptions.schedules import SET_SERVICE
from web.request_forms import RequestForm


class SettingForm(RequestForm):
    """When a service runs automatically."""

    description = SET_SERVICE
