"""Django's logging: the lines of `workers.log_lines` on standard error, of libraries as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from workers.errors import InvalidInput
from workers.log_lines import LEVEL_VARIABLE, line_formatter

_QUIET = (
    # Beat sends a task every second or two; that each came and went is no news.
    "celery.app.trace",
    "celery.beat",
    "celery.worker.strategy",
)
_THEIR_OWN = ("uvicorn", "uvicorn.error")
"""They bring handlers with lines of their own."""
_SILENT = ("uvicorn.access",)
"""Told to be: to configure the logger above would let it speak again."""


def logging_settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """For LOGGING. Raises ImproperlyConfigured for a format that there is not."""
    try:
        formatter = line_formatter(environment)
    except InvalidInput as error:
        raise ImproperlyConfigured(str(error)) from error
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": lambda: formatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "loggers": {
            **{name: {"level": "WARNING"} for name in _QUIET},
            **{name: {"handlers": [], "propagate": True} for name in _THEIR_OWN},
            **{name: {"handlers": [], "propagate": False} for name in _SILENT},
        },
        "root": {"handlers": ["stderr"], "level": environment.get(LEVEL_VARIABLE) or "INFO"},
    }
