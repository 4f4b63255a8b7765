"""The explanation of each rule that rejects a commit, for the conflict pages. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controlplane.writers.conflicts import ConflictRule


@dataclass(frozen=True, slots=True)
class Explanation:
    title: str
    words: str
    strategy: str
    """Hudi's name of it without the package, or what is compared."""
    summary: str
    """One line, for lists."""


_FIRST_WINS: Final = "First to complete wins: both wrote the same file groups at the same time"

EXPLANATIONS: Final[Mapping[ConflictRule, Explanation]] = {
    ConflictRule.OVERLAPPING_FILE_GROUPS: Explanation(
        "The first to complete wins",
        "Two optimistic writes that overlap in time cannot change the same file group. The second "
        "would overwrite the rows of the first.",
        "optimistic, by file group",
        _FIRST_WINS,
    ),
    ConflictRule.UNMERGEABLE_FILE_GROUPS: Explanation(
        "Replaced file groups accept no log files",
        "In non-blocking mode, log files of two writers merge unless the file group itself was "
        "replaced or duplicated since.",
        "",
        _FIRST_WINS,
    ),
    ConflictRule.INSERTED_TWICE: Explanation(
        "A key belongs to one file group",
        "Neither writer found these keys, and each inserted them into its own file groups. The "
        "second commit would duplicate each key, so new keys are compared in addition to file "
        "groups.",
        "optimistic, by inserted keys",
        "A key belongs to one file group: each writer inserted it into its own",
    ),
    ConflictRule.DELETED_UNSEEN: Explanation(
        "A delete covers the keys at its commit",
        "The delete did not find these keys when it began, and the winner inserted them before the "
        "delete could commit. Their rows would remain in the table.",
        "by the keys to delete",
        "A delete covers the keys at its commit: these were inserted after its scan",
    ),
    ConflictRule.CHANGED_SINCE_READ: Explanation(
        "Rows that were read must be unchanged",
        "An UPDATE or a MERGE writes the required columns that it does not set with the values "
        "that it read when it began. These would overwrite newer values, and would restore "
        "half of a deleted row. Each commit since then is therefore checked for these keys.",
        "by the keys that were read",
        "Rows that were read must be unchanged: these were changed after the read",
    ),
    ConflictRule.BROUGHT_APART: Explanation(
        "A key belongs to one partition",
        "Column groups join rows by key within a partition. Both writers wrote these keys, but "
        "to different partitions. The second commit would put a key into two partitions, or "
        "change a row that has moved. Keys are therefore compared in every mode.",
        "by key and partition",
        "A key belongs to one partition: the writers wrote it to different ones",
    ),
    ConflictRule.TAKEN_BACK: Explanation(
        "A commit that was read was rolled back",
        "This write read files of a commit that was rolled back before the write could commit.",
        "",
        "A commit that was read was rolled back",
    ),
    ConflictRule.WRITE_EPOCH: Explanation(
        "An epoch commits once and in order",
        "The commit of a streaming query records the number of its epoch. The table already "
        "contained this epoch or a later one when the write wanted to commit.",
        "by stream and epoch",
        "An epoch commits once and in order: this one was committed before, or is out of order",
    ),
    ConflictRule.CHECK_COMMIT: Explanation(
        "A sink commits only from its last offsets",
        "A sink's commit requires the offsets and the epoch with which its transaction began. "
        "Otherwise records would be committed twice or skipped.",
        "by epoch and offsets",
        "A sink commits only from its last offsets: it had other ones by then",
    ),
    ConflictRule.PLAN_RESET: Explanation(
        "An offset reset applies to the planned state",
        "The sink committed after the reset was planned, so the plan no longer describes it.",
        "by the sink's last commit",
        "An offset reset applies to the planned state: the sink has committed since",
    ),
}

CONDITIONS: Final = frozenset(
    {ConflictRule.WRITE_EPOCH, ConflictRule.CHECK_COMMIT, ConflictRule.PLAN_RESET}
)
"""Rules of the writer itself: no other writer's files are compared, and a retry does not help."""
