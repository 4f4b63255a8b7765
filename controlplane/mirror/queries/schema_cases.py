"""Which of RFC-82's eight cases a table's newest writes met: those that went on, and those that
were refused. Reads of the mirror, two queries; never touches storage.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from controlplane.mirror.models import InstantRecord
from controlplane.tables.models import Table
from controlplane.tables.queries import DATA_ACTIONS
from workers.clock import InstantTime

WRITES_LOOKED_AT = 500
INSTANTS_KEPT = 3
NUMBERS = range(1, 9)
OLDER = 6
"""The case of a writer that writes with the schema before the newest one."""


@dataclass(slots=True)
class CaseSeen:
    """How often one case was met."""

    committed: int = 0
    refused: int = 0
    commits: list[InstantTime] = field(default_factory=list)
    """The newest, newest first."""
    conflicts: list[InstantTime] = field(default_factory=list)
    """Likewise, of those that lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OlderWriter:
    """Its newest compared write had the schema from before a change."""

    writer: str
    instant: InstantTime


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesSeen:
    by_number: dict[int, CaseSeen]
    """All eight."""
    older: list[OlderWriter]
    """Newest write first."""


def cases_seen(table: Table) -> CasesSeen:
    """How often each case was met by the newest completed writes and the newest conflicts."""
    by_number = {number: CaseSeen() for number in NUMBERS}
    newest_case: dict[str, tuple[int, InstantTime]] = {}
    for instant, writer, number in _verdicts(table):
        seen = by_number[number]
        seen.committed += 1
        seen.commits += [instant] if len(seen.commits) < INSTANTS_KEPT else []
        newest_case.setdefault(writer, (number, instant))
    for instant, number in _refused(table):
        seen = by_number[number]
        seen.refused += 1
        seen.conflicts += [instant] if len(seen.conflicts) < INSTANTS_KEPT else []
    older = [
        OlderWriter(writer=writer, instant=instant)
        for writer, (number, instant) in newest_case.items()
        if number == OLDER
    ]
    return CasesSeen(by_number=by_number, older=older)


def _verdicts(table: Table) -> Iterable[tuple[InstantTime, str, int]]:
    """The newest writes are read and those without a verdict passed over here: a filter would read
    a whole history to look for what is rare.
    """
    newest = (
        InstantRecord.objects.filter(table=table, state="completed", action__in=DATA_ACTIONS)
        .order_by("-completed_at")
        .values_list("requested_at", "writer_name", "metadata__schema_verdict__scenario")
    )
    for instant, writer, number in newest[:WRITES_LOOKED_AT]:
        if number in NUMBERS:
            yield instant, writer, number


def _refused(table: Table) -> Iterable[tuple[InstantTime, int]]:
    lost = (
        table.conflicts.filter(kind="schema")
        .order_by("-decided_at")
        .values_list("loser_instant", "schemas__scenario")
    )
    for instant, number in lost[:WRITES_LOOKED_AT]:
        if number in NUMBERS:
            yield instant, number
