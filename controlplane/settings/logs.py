"""Django's logging: the lines of `workers.log_lines` on standard error, of libraries as well."""

from __future__ import annotations

import logging.handlers
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path
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
_AUDIT = "controlplane.audit"
"""Its lines are for whoever collects logs off the machine, not for whoever sits at a terminal."""


def logging_settings(
    environment: Mapping[str, str], *, shell_log: Path | None = None
) -> dict[str, Any]:
    """For LOGGING; of a command in a shell, the audit's lines go to the file `shell_log`, and only
    its warnings to the terminal. Raises ImproperlyConfigured for a format that there is not.
    """
    try:
        formatter = line_formatter(environment)
    except InvalidInput as error:
        raise ImproperlyConfigured(str(error)) from error
    settings = _settings(environment, formatter)
    if shell_log is not None:
        settings["handlers"] |= _shell_handlers(shell_log)
        settings["loggers"][_AUDIT] = {"handlers": ["shell", "warnings"], "propagate": False}
    return settings


class ShellLog(logging.handlers.WatchedFileHandler):
    """A file that comes into being, and its folder, with the first line."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8", delay=True)

    def _open(self) -> TextIOWrapper:
        Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
        return super()._open()


def _shell_handlers(path: Path) -> dict[str, Any]:
    return {
        "shell": {"()": lambda: ShellLog(path), "formatter": "line"},
        "warnings": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "level": "WARNING",
        },
    }


def _settings(environment: Mapping[str, str], formatter: logging.Formatter) -> dict[str, Any]:
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
