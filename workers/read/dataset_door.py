"""A scan as a dataset of Arrow: DuckDB and others hand it columns and filter as they need them.

DuckDB asks only classes of Arrow's own, and filters nothing again that it handed on: the scan
filters exactly.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from workers.errors import InvalidInput
from workers.read.predicate import Predicate, predicate_of
from workers.read.scan import Scan


class ScanDataset(ds.InMemoryDataset):
    """Reads the scan anew for each question; nothing is read before."""

    scan: Scan

    @classmethod
    def of(cls, scan: Scan) -> ScanDataset:
        """The dataset. Raises InvalidInput for a scan with a limit: a filter that comes later would
        choose among the first rows only.
        """
        if scan.limit is not None:
            raise InvalidInput("a scan with a limit takes no filter: leave the limit to the query")
        make: Any = cls
        dataset: ScanDataset = make(scan.schema.empty_table())
        dataset.scan = scan
        return dataset

    # What else Arrow's protocol has, such as sizes of batches, means nothing here.
    def scanner(  # type: ignore[override]
        self,
        columns: Any = None,
        filter: Any = None,  # noqa: A002
        **_: Any,
    ) -> ds.Scanner:
        """What Arrow's protocol asks for: these columns of the rows that the filter takes."""
        names = list(self.scan.columns) if columns is None else list(columns)
        scan = narrowed(self.scan, names, filter)
        if not names:  # As for a count: rows without a column are not told apart from none.
            return ds.Scanner.from_batches(scan.to_batches(), columns=[])
        return ds.Scanner.from_batches(scan.to_batches())

    def to_table(  # type: ignore[override]
        self,
        columns: Any = None,
        filter: Any = None,  # noqa: A002
        **_: Any,
    ) -> pa.Table:
        """The rows at once."""
        return self.scanner(columns, filter).to_table()

    def count_rows(  # type: ignore[override]
        self,
        filter: Any = None,  # noqa: A002
        **_: Any,
    ) -> int:
        """How many rows the filter takes."""
        return sum(one.num_rows for one in narrowed(self.scan, [], filter).to_batches())


def narrowed(scan: Scan, columns: list[str], where: object) -> Scan:
    """The scan of these of its columns, or of its first where none is named, and of those of its
    rows that `where` takes as well. Raises InvalidInput.
    """
    if unknown := [name for name in columns if name not in scan.columns]:
        raise InvalidInput("the scan has no such column", column=unknown[0], known=scan.columns)
    chosen = columns or [scan.columns[0]]
    predicate = scan.predicate
    if where is not None:
        predicate = both(predicate, predicate_of(where, scan.schema))
    return scan.narrowed(tuple(chosen), predicate)


def both(left: Predicate | None, right: Predicate) -> Predicate:
    """What is true where both are."""
    if left is None:
        return right
    return Predicate(
        left.expression & right.expression,
        left.columns | right.columns,
        (*left.conditions, *right.conditions),
        right.opaque or left.opaque,
    )
