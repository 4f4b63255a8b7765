"""Which file groups a compaction takes."""

from __future__ import annotations

import pytest

from workers.errors import InvalidInput
from workers.table_services.compaction.proposal import Candidate, choose
from workers.table_services.compaction.settings import Strategy, parse_compaction_settings
from workers.timeline.service_plans import PlannedSlice

_MEGABYTE = 1024 * 1024


def _group(name: str, base_mb: int, log_mb: int, logs: int = 1) -> Candidate:
    files = tuple(f"p/{name}-{n}" for n in range(logs))
    old = PlannedSlice("p", name, "20260101000000000", f"p/{name}", files)
    return Candidate(old, base_mb * _MEGABYTE, log_mb * _MEGABYTE)


GROUPS = [_group("a", 10, 1, logs=5), _group("b", 10, 9, logs=1), _group("c", 1, 4, logs=3)]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"hoodie.compaction.strategy": "UnBoundedCompactionStrategy"}, "abc"),
        ({}, "bca"),  # Most log bytes first.
        ({"hoodie.compaction.logfile.size.threshold": str(4 * _MEGABYTE)}, "bc"),
        ({"hoodie.compaction.strategy": "LogFileNumBasedCompactionStrategy"}, "acb"),
        (
            {
                "hoodie.compaction.strategy": "LogFileNumBased",
                "hoodie.compaction.logfile.num.threshold": "3",
            },
            "ac",
        ),
        (
            {
                "hoodie.compaction.strategy": "BoundedIOCompactionStrategy",
                "hoodie.compaction.target.io": "23",
            },
            "ab",
        ),
        ({"hoodie.compaction.target.io": "1"}, "b"),
    ],
)
def test_strategy_chooses(given: dict[str, str], names: str) -> None:
    chosen_groups = choose(GROUPS, parse_compaction_settings(given))

    assert "".join(one.slice.file_id for one in chosen_groups) == names


def test_strategy_is_named_as_hudi_names_its_class() -> None:
    package = "org.apache.hudi.table.action.compact.strategy."
    given = {"hoodie.compaction.strategy": f"{package}LogFileSizeBasedCompactionStrategy"}

    assert parse_compaction_settings(given).strategy is Strategy.LOG_FILE_SIZE_BASED
    with pytest.raises(InvalidInput, match="unknown compaction strategy"):
        parse_compaction_settings({"hoodie.compaction.strategy": "os.system"})


@pytest.mark.parametrize("text", ["2026", "yesterday", "../20260101000000000"])
def test_instant_is_an_instant(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_compaction_settings({"instant": text})
