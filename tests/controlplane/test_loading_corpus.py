"""The corpus of `tests/files` through every way of loading: each gives the expected rows of a
file, or refuses it and leaves nothing behind.
"""

from __future__ import annotations

import re

import pytest

from controlplane.operations.table_creation.suggesting import sampled_rows
from tests.workers.loading.corpus import Case, cases, get_types, plain
from workers.errors import InvalidInput
from workers.loading.content import InputFile
from workers.table_services.input_rows import read_input_rows

CASES = cases()
EACH = pytest.mark.parametrize("case", CASES, ids=[case.path.name for case in CASES])


@EACH
def test_rows_of_an_overwrite_are_those_of_the_file(case: Case) -> None:
    parameters = {"path": str(case.path), **case.options}
    keys = [case.key] if case.key else []
    if case.refused:
        with pytest.raises(InvalidInput) as refusal:
            read_input_rows(parameters, case.table, keys=keys)
        assert re.search(case.refused, str(refusal.value), re.DOTALL)
        return

    rows = read_input_rows(parameters, case.table, keys=keys)

    assert (get_types(rows.schema), plain(rows.to_pylist())) == (case.types, case.rows)


@EACH
def test_preview_shows_what_will_be_stored(case: Case) -> None:
    is_by_key = bool(case.key)
    if case.refused and not is_by_key and "_1Min" not in case.refused:
        words = ("Unit_Price", "same name", "only by case", "column_3")
        is_proposed = any(word in case.refused for word in words)
        if not is_proposed:
            with pytest.raises(InvalidInput):
                sampled_rows([InputFile.of(case.path)], case.options, case.table)
            return
    sample = sampled_rows([InputFile.of(case.path)], case.options, case.table)
    if case.refused:
        assert is_by_key or sample.options == {"names": "clean"}
        return

    left_out = [name for name in sample.rows.column_names if name not in case.types]
    stored = sample.rows.drop_columns(left_out)
    if case.table is not None:
        assert get_types(stored.schema) == case.types
        assert plain(stored.to_pylist()) == case.rows
    assert all(f"{name}" in "\n".join(sample.notes) or case.table is None for name in left_out)
    assert case.note in "\n".join(sample.notes) or case.table is None
