"""A production node's settings, with one kind of operation more: a write of a few rows by Arrow."""

from __future__ import annotations

from pathlib import Path

from controlplane.operations import kinds
from controlplane.settings.prod import *  # noqa: F403  (Django settings are composed by star import)

kinds.__path__.append(str(Path(__file__).parent / "kinds"))
