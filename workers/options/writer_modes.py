"""The concurrency mode of a writer, and the policy for failed writes; in Hudi's words.

Values only; `workers.concurrency` and `workers.recovery.failed_writes` act. Under every policy only
dead writers are rolled back: a writer with a live heartbeat is never rolled back by another.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from workers.errors import InvalidInput

MODE_KEY = "hoodie.write.concurrency.mode"
POLICY_KEY = "hoodie.clean.failed.writes.policy"
OLD_POLICY_KEY = "hoodie.cleaner.policy.failed.writes"


class ConcurrencyMode(StrEnum):
    """The expectation of a writer about others, under Hudi's names (`WriteConcurrencyMode`)."""

    SINGLE_WRITER = "SINGLE_WRITER"
    OPTIMISTIC_CONCURRENCY_CONTROL = "OPTIMISTIC_CONCURRENCY_CONTROL"
    NON_BLOCKING_CONCURRENCY_CONTROL = "NON_BLOCKING_CONCURRENCY_CONTROL"

    @property
    def has_rivals(self) -> bool:
        """True if other writers are expected next to this one."""
        return self is not ConcurrencyMode.SINGLE_WRITER


APPENDING: Final = ("upsert", "delete")
"""Operations that only append logs: a non-blocking writer can carry them out."""


def mode_of_operation(of_table: ConcurrencyMode | None, operation: str) -> ConcurrencyMode:
    """Return the mode of a write that names none, on a table whose mode is `of_table`.

    A write that replaces file groups or reads rows cannot be non-blocking; next to non-blocking
    writers it is optimistic, because it is not alone.
    """
    if of_table is None:
        return ConcurrencyMode.SINGLE_WRITER
    is_blocking = operation not in APPENDING
    if of_table is ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL and is_blocking:
        return ConcurrencyMode.OPTIMISTIC_CONCURRENCY_CONTROL
    return of_table


class FailedWritesPolicy(StrEnum):
    """The time when a writer rolls back the files of dead writers (Hudi's
    `HoodieFailedWritesCleaningPolicy`).
    """

    EAGER = "EAGER"
    """Before a write begins."""
    LAZY = "LAZY"
    """After a write has committed, and by the table services."""
    NEVER = "NEVER"
    """Left to a writer with another policy, or to a user."""


def get_failed_writes_policy(text: str, mode: ConcurrencyMode) -> FailedWritesPolicy:
    """Parse the policy of a writer in `mode`; an empty text means the mode's default.

    Raises InvalidInput for an unknown policy, and for EAGER next to other writers.
    """
    if not text:
        return FailedWritesPolicy.LAZY if mode.has_rivals else FailedWritesPolicy.EAGER
    allowed = [policy.value for policy in FailedWritesPolicy]
    if text.upper() not in allowed:
        raise InvalidInput(
            "value is not one of those allowed", key=POLICY_KEY, value=text, allowed=allowed
        )
    policy = FailedWritesPolicy(text.upper())
    if mode.has_rivals and policy is FailedWritesPolicy.EAGER:
        raise InvalidInput(
            f"EAGER is for a single writer: set {POLICY_KEY}=LAZY, or leave it out", mode=mode.value
        )
    return policy


def normalize_policy_key(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with the policy's older name replaced by the newer one. Raises
    InvalidInput when both are set and differ.
    """
    named = {key: value for key, value in options.items() if key != OLD_POLICY_KEY}
    older = options.get(OLD_POLICY_KEY)
    if older is not None and named.setdefault(POLICY_KEY, older) != older:
        raise InvalidInput("an option and its older name differ", key=POLICY_KEY, older=older)
    return named
