"""What a lock's record says of its holder: pure, with the owners that other writers leave there."""

from __future__ import annotations

import pytest

from workers.concurrency.locks.record import LockState

UNTIL_MS = 90_000

# The owner's text, and what is read from it: epoch, since when, for how long, whose, deciding what
OWNERS = """
owner                                     epoch  since  lease  writer  deciding
sluice/7/60000.abc-10000.ingest/-         7      60000  10000  ingest  -
sluice/7/60000.abc-10000.ingest/20260101  7      60000  10000  ingest  20260101
sluice/7/60000.abc-10000/-                7      60000  10000  -       -
sluice/7/60000.abc/-                      7      60000  30000  -       -
sluice/7/90000.abc/-                      7      90000  -      -       -
sluice/7/99000.abc/-                      7      99000  -      -       -
hudi-owner-uuid                           90000  -      -      -       -
hudi/7/60000.abc-10000.ingest/-           90000  -      -      -       -
sluice/x/60000.abc-10000.ingest/-         90000  -      -      -       -
sluice/7/60000.abc-10000.ingest           90000  -      -      -       -
hudi/x/60000/2                            90000  -      -      -       -
"""


@pytest.mark.parametrize("row", OWNERS.strip().splitlines()[1:], ids=str.strip)
def test_an_owner_of_ours_says_everything_and_another_ones_nothing_but_its_end(row: str) -> None:
    owner, *says = row.split()

    holding = LockState(False, UNTIL_MS, owner)

    read = (
        *(holding.epoch, holding.acquired_at_ms, holding.lease_ms),
        *(holding.writer, holding.completing),
    )
    assert ["-" if part is None else str(part) for part in read] == says
