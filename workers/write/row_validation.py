"""Rows prepared for placement, without those that the table cannot hold if dead letters are on.

A task checks its own rows: it needs nothing but its context, and returns the dead letters. Without
a dead-letter path this is `prepare` and rejects the batch as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from workers.errors import BadRows, InstantRolledBack, InvalidInput
from workers.schema.bad_rows import find_failing_rows
from workers.storage.base import Storage
from workers.timeline import decisions
from workers.write.context import WriteContext
from workers.write.dead_letters import BAD_ROWS_MAX, DeadLetters, build_dead_letters, check_bad_rows
from workers.write.prepare import prepare
from workers.write.status import DeadLetterFile, TaskIds


@dataclass(frozen=True, slots=True)
class ValidatedRows:
    """A batch split into rows that the table takes and rows that it cannot hold."""

    prepared: pa.Table
    letters: pa.Table | None = None
    """The other rows with the reasons; None when there are none."""

    def write_dead_letters(
        self, context: WriteContext, task: TaskIds, storage: Storage, *, part: int = 0
    ) -> list[DeadLetterFile]:
        """Write the dead letters. Return the file, which is durable; none when every row was taken.

        `part` is different for several batches of one attempt. `storage` is the table's. Raises
        InstantRolledBack when the instant is decided already: then no process would delete the
        file.
        """
        if self.letters is None:
            return []
        home = DeadLetters(context.options.dead_letter_path, context.instant)
        written = home.write(self.letters, task, part)
        if decisions.is_decided(storage, context.instant):
            home.delete(written)
            raise InstantRolledBack("instant was decided under its task", instant=context.instant)
        return [written]


Prepare = Callable[[WriteContext, pa.Table], pa.Table]


def split_bad_rows(
    context: WriteContext,
    batch: pa.Table,
    *,
    is_numbered: bool = False,
    prepared_by: Prepare | None = None,
) -> ValidatedRows:
    """Split the batch. `is_numbered` is true if the batch has all rows of the caller.

    Raises InvalidInput when the batch as such is rejected, when too many rows are, and for any row
    when dead letters are off.
    """
    make = prepared_by or prepare
    if not context.options.dead_letter_path:
        try:
            return ValidatedRows(make(context, batch))
        except BadRows as error:
            if not is_numbered:
                error.values.pop("first_rows", None)
            raise
    prepare_rows = partial(make, context)
    prepare_rows(batch.slice(0, 0))
    bad: dict[int, str] = {}
    positions, good = np.arange(batch.num_rows), batch
    prepared: pa.Table | None = None
    while prepared is None:
        try:
            prepared = prepare_rows(good)
            continue
        except InvalidInput as error:
            reasons = _find_reasons(error, good, prepare_rows)
        bad |= {int(positions[at]): why for at, why in reasons.items()}
        check_bad_rows(len(bad))
        positions = np.delete(positions, list(reasons))
        good = batch.take(positions)
    letters = build_dead_letters(batch, bad, is_numbered=is_numbered) if bad else None
    return ValidatedRows(prepared, letters)


def _find_reasons(
    error: InvalidInput, batch: pa.Table, prepare_rows: Callable[[pa.Table], pa.Table]
) -> dict[int, str]:
    """Return why rows of the batch that `error` rejected are rejected; some of them at least."""
    if isinstance(error, BadRows):
        return dict.fromkeys(error.positions, str(error.message))
    # Rejected for a value whose row is unknown.
    bad_positions = find_failing_rows(
        batch.num_rows,
        lambda start, rows: _find_refusal(batch.slice(start, rows), prepare_rows) is not None,
        most=BAD_ROWS_MAX + 1,
    )
    assert bad_positions, "rows that are refused together only"
    return {at: str(_find_refusal(batch.slice(at, 1), prepare_rows)) for at in bad_positions}


def _find_refusal(
    batch: pa.Table, prepare_rows: Callable[[pa.Table], pa.Table]
) -> InvalidInput | None:
    try:
        prepare_rows(batch)
    except InvalidInput as error:
        return error
    return None
