"""The result of one health check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from workers.clock import InstantTime

Verdict = Literal["good", "warn", "bad", "quiet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    title: str
    verdict: Verdict
    sentence: str
    """The finding, without a full stop."""
    advice: str = ""
    """What to do; empty if nothing is needed."""
    instant: InstantTime = ""
    """The instant it is about, if there is one."""
    remedy: str = ""
    """The service that helps, or `rollback`; empty when none does."""
