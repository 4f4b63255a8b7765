"""Settings of a column group for late versions, nulls, deletes and the ordering of its columns."""

from __future__ import annotations

from enum import StrEnum


class OnLate(StrEnum):
    """The effect of a version that is older than the stored one (requirements 5.2)."""

    IGNORE = "ignore"
    """A version older than the stored one loses."""
    OVERWRITE = "overwrite"
    """The later commit wins whatever its age."""


class NullMode(StrEnum):
    """The meaning of a null in a batch: a value, or no value (requirements 5.2)."""

    OVERWRITE = "overwrite"
    """A null is stored."""
    KEEP = "keep"
    """A null keeps the column's value."""


class DeleteScope(StrEnum):
    """The reach of a delete by one group's stream (requirements 5.2)."""

    GROUP = "group"
    ROW = "row"
    """A delete by this group takes away whatever any group wrote up to its age."""


class Granularity(StrEnum):
    """The unit that has a version: the group or the column (requirements 5.2)."""

    GROUP = "group"
    """A version replaces all columns of the group at once, so it has to bring all of them."""
    COLUMN = "column"
    """Each column keeps a version of its own, so a write may bring some of them."""
