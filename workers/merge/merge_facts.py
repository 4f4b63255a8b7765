"""Counts of versions that merges of column groups passed over."""

from __future__ import annotations

from dataclasses import dataclass, field

from workers.timeline.group_facts import FactsByGroup, drop_unknown_facts


@dataclass(slots=True)
class MergeFacts:
    """What a merge passed over, per group; added up over merges."""

    late: dict[str, int] = field(default_factory=dict)
    """Versions that came after a newer one."""
    late_keys: dict[str, str] = field(default_factory=dict)
    """The key of the last one that came late."""
    tied: dict[str, int] = field(default_factory=dict)
    """Versions replaced by a later one of the same age."""

    def by_group(self) -> FactsByGroup:
        """Return the counts as commits record them: per group, with the last late key if any."""
        return drop_unknown_facts(
            {
                group: {
                    "late": self.late.get(group, 0),
                    "late_key": self.late_keys.get(group),
                    "tied": self.tied.get(group, 0),
                }
                for group in self.late
            }
        )
