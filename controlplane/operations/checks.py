"""One thing that is looked at in storage to prove that an operation did what it said."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    title: str
    is_proved: bool | None
    """None while it cannot be known yet."""
    words: str
