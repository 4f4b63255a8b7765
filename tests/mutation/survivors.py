"""The mutants that survive and why they may: `survivors.toml`, exactly."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

LIST = Path(__file__).with_name("survivors.toml")


def explained() -> Mapping[str, str]:
    """The name of each, and the reason: another way to say the same, or a hole that is left."""
    groups = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return {name: reason for reason, names in groups.items() for name in names}
