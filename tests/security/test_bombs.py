"""Threat T20: files that are small and say that they are large, or nest without end, cost whoever
reads them neither his memory nor his time.
"""

from __future__ import annotations

import pytest

from workers.json_text import read_json


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 10_000 + "]" * 10_000])
def test_json_that_nests_without_end_is_broken_json(text: str) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(text)
