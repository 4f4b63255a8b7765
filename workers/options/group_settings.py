"""What a column group may say of late versions, nulls, deletes and the ages of its columns."""

from __future__ import annotations

from enum import StrEnum


class OnLate(StrEnum):
    """What becomes of a version that is older than the stored one (requirements 5.2)."""

    IGNORE = "ignore"
    """A version older than the stored one loses."""
    OVERWRITE = "overwrite"
    """The later commit wins whatever its age."""


class NullMode(StrEnum):
    """Whether a null in a batch is a value or silence (requirements 5.2)."""

    OVERWRITE = "overwrite"
    """A null that is said is stored."""
    KEEP = "keep"
    """A null says nothing about its column."""


class DeleteScope(StrEnum):
    """How far a delete by one group's stream reaches (requirements 5.2)."""

    GROUP = "group"
    ROW = "row"
    """A delete by this group takes away whatever any group wrote up to its age."""


class Granularity(StrEnum):
    """Whether columns of a group age together or apart (requirements 5.2)."""

    GROUP = "group"
    """A version replaces all columns of the group at once, so it has to bring all of them."""
    COLUMN = "column"
    """Each column keeps a version of its own, so a write may bring some of them."""
