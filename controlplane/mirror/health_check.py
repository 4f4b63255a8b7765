"""What one health check says."""

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
    """What is the case, without a full stop."""
    advice: str = ""
    """What to do about it; empty when nothing has to be done."""
    instant: InstantTime = ""
    """The instant it is about, if there is one."""
    remedy: str = ""
    """The service that helps, or `rollback`; empty when none does."""
