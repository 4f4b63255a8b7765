"""Files of the corpus are read, or refused, as their JSON files declare."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.workers.loading.corpus import Case, cases, get_types, plain
from workers.errors import InvalidInput
from workers.loading.options import load_options
from workers.loading.reader import RowSource, open_rows, spool_rows

CASES = cases()


def open_case(case: Case) -> RowSource:
    keys = [case.key] if case.key else []
    return open_rows([case.path], load_options(case.options), case.table, keys=keys)


@pytest.mark.parametrize("case", CASES, ids=[case.path.name for case in CASES])
def test_file_is_read_or_refused_as_expected(case: Case, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    if case.refused:
        with pytest.raises(InvalidInput) as refusal:
            spool_rows(open_case(case), file)
        assert re.search(case.refused, str(refusal.value), re.DOTALL)
        assert list(tmp_path.iterdir()) == []
        return

    rows = open_case(case)
    spool_rows(rows, file)

    assert get_types(rows.schema) == case.types
    assert plain(pq.read_table(file).to_pylist()) == case.rows
    assert rows.counts.rows == len(case.rows)
    assert case.note in "\n".join(rows.counts.sentences)
