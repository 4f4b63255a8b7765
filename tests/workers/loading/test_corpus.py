"""Each file of the corpus is read as it says beside it, or refused as it says there."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.workers.loading.corpus import Case, cases, plain, types_of
from workers.errors import InvalidInput
from workers.loading.options import load_options
from workers.loading.reader import RowSource, open_rows
from workers.loading.spooling import spool_rows

CASES = cases()


def opened(case: Case) -> RowSource:
    keys = [case.key] if case.key else []
    return open_rows([case.path], load_options(case.options), case.table, keys=keys)


@pytest.mark.parametrize("case", CASES, ids=[case.path.name for case in CASES])
def test_file_is_read_or_refused_as_it_says_beside_it(case: Case, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    if case.refused:
        with pytest.raises(InvalidInput) as refusal:
            spool_rows(opened(case), file)
        assert re.search(case.refused, str(refusal.value), re.DOTALL)
        assert list(tmp_path.iterdir()) == []
        return

    rows = opened(case)
    spool_rows(rows, file)

    assert types_of(rows.schema) == case.types
    assert plain(pq.read_table(file).to_pylist()) == case.rows
    assert rows.counts.rows == len(case.rows)
    assert case.says in "\n".join(rows.counts.sentences)
