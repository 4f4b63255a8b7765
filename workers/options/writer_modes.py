"""What a writer expects of others, and when it rolls failed writes back; in Hudi's words.

Values only; `workers.concurrency` and `workers.recovery.failed_writes` act. Whatever the policy,
only what is dead goes: a writer whose heart beats is never rolled back by another writer.
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
    """What a writer expects of others, under Hudi's names (`WriteConcurrencyMode`)."""

    SINGLE_WRITER = "SINGLE_WRITER"
    OPTIMISTIC_CONCURRENCY_CONTROL = "OPTIMISTIC_CONCURRENCY_CONTROL"
    NON_BLOCKING_CONCURRENCY_CONTROL = "NON_BLOCKING_CONCURRENCY_CONTROL"

    @property
    def has_rivals(self) -> bool:
        """Other writers are expected beside this one."""
        return self is not ConcurrencyMode.SINGLE_WRITER


APPENDING: Final = ("upsert", "delete")
"""Operations that only append logs: a non-blocking writer can carry them out."""


def mode_of_operation(of_table: ConcurrencyMode | None, operation: str) -> ConcurrencyMode:
    """The mode of a write that names none, on a table that says `of_table`.

    What replaces file groups or looks for rows cannot be non-blocking; beside non-blocking writers
    it is optimistic, because it is not alone.
    """
    if of_table is None:
        return ConcurrencyMode.SINGLE_WRITER
    is_blocking = operation not in APPENDING
    if of_table is ConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL and is_blocking:
        return ConcurrencyMode.OPTIMISTIC_CONCURRENCY_CONTROL
    return of_table


class FailedWritesPolicy(StrEnum):
    """When a writer rolls back what dead writers left behind (Hudi's
    `HoodieFailedWritesCleaningPolicy`).
    """

    EAGER = "EAGER"
    """Before a write begins."""
    LAZY = "LAZY"
    """After a write has committed, and by the table services."""
    NEVER = "NEVER"
    """By whoever has another policy, or by a person."""


def failed_writes_policy(given: str, mode: ConcurrencyMode) -> FailedWritesPolicy:
    """The policy of a writer in `mode`; an empty text stands for the mode's default.

    Raises InvalidInput for an unknown one, and for EAGER beside other writers.
    """
    if not given:
        return FailedWritesPolicy.LAZY if mode.has_rivals else FailedWritesPolicy.EAGER
    known = [one.value for one in FailedWritesPolicy]
    if given.upper() not in known:
        raise InvalidInput(
            "value is not one of those allowed", key=POLICY_KEY, value=given, allowed=known
        )
    policy = FailedWritesPolicy(given.upper())
    if mode.has_rivals and policy is FailedWritesPolicy.EAGER:
        raise InvalidInput(
            f"EAGER is for a single writer: set {POLICY_KEY}=LAZY, or leave it out", mode=mode.value
        )
    return policy


def newly_named(given: Mapping[str, str]) -> dict[str, str]:
    """The policy's older name under the newer one. Raises InvalidInput when both say different."""
    named = {key: value for key, value in given.items() if key != OLD_POLICY_KEY}
    older = given.get(OLD_POLICY_KEY)
    if older is not None and named.setdefault(POLICY_KEY, older) != older:
        raise InvalidInput("an option and its older name differ", key=POLICY_KEY, older=older)
    return named
