"""Secrets of one node: from the environment, else from `<home>/secrets.json`, else absent.

`make up` writes the file with mode 0600. Nothing here ever logs or returns a secret inside an
error.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, repr=False)
class Secrets:
    django_secret_key: str = ""
    worker_token: str = ""
    marker_secret: str = ""
    metrics_token: str = ""


_ENVIRONMENT = {
    "django_secret_key": "SLUICE_SECRET_KEY",
    "worker_token": "SLUICE_WORKER_TOKEN",
    "marker_secret": "SLUICE_MARKER_SECRET",
    "metrics_token": "SLUICE_METRICS_TOKEN",
}


def read_secrets(home: Path) -> Secrets:
    """What is set in the environment wins over the file; what neither holds is empty."""
    path = home / "secrets.json"
    stored = json.loads(path.read_text()) if path.is_file() else {}
    return Secrets(
        **{
            name: os.environ.get(variable) or str(stored.get(name, ""))
            for name, variable in _ENVIRONMENT.items()
        }
    )
