"""How the workers share the suite, and what a run of it must have tried."""

from __future__ import annotations

from typing import cast

import pytest

from tests.support.crash_count import CASES, CASES_LEAST, SUITE_TESTS, CrashCount
from tests.support.shared_work import part_of


def test_files_that_share_a_process_are_one_part_and_crash_cases_are_many() -> None:
    apart = [
        "tests/interop/test_matrix.py::test_one[a-b]",
        "tests/workers/spark/test_reads.py::test_one",
        "tests/browser/test_pages.py::test_one",
        "tests/test_tidy.py::test_one",
        "tests/crash/test_crash_sequences.py::test_one[cow-upsert-clean]",
        "tests/crash/test_crash_sequences.py::test_one[cow-evolve-clean]",
    ]

    assert len({part_of(one) for one in apart}) == len(apart)
    assert part_of("tests/interop/test_types.py::test_two") == part_of(apart[0])
    assert part_of("tests/scenarios/test_weather.py::test_two") == part_of(apart[1])
    assert part_of("tests/browser/test_services.py::test_two") == part_of(apart[2])
    assert part_of("tests/crash/test_crash_sequences.py::test_one[cow-upsert-archive]") == part_of(
        apart[4]
    )


@pytest.mark.parametrize(
    ("cases", "passed", "fails"),
    [(CASES_LEAST, 2, False), (CASES_LEAST - 1, 2, True), (CASES_LEAST - 1, 1, False)],
    ids=["enough", "too few", "part of the suite"],
)
def test_full_crash_suite_with_too_few_distinct_cases_fails_the_run(
    cases: int, passed: int, fails: bool
) -> None:
    count = CrashCount()
    for number in range(passed):
        # What both tests tried is one case.
        count.pytest_runtest_logreport(
            _report((CASES, [str(one) for one in range(cases)]), (SUITE_TESTS, 2))
        )
        count.pytest_runtest_logreport(_report((CASES, [f"lost {number}"]), outcome="failed"))

    session = cast(pytest.Session, _Session())
    count.pytest_sessionfinish(session)

    assert session.exitstatus == (1 if fails else 0)


class _Session:
    exitstatus = 0


def _report(*properties: tuple[str, object], outcome: str = "passed") -> pytest.TestReport:
    return pytest.TestReport(
        "tests/crash/test_one.py::test_one",
        ("tests/crash/test_one.py", 0, "test_one"),
        {},
        outcome,  # type: ignore[arg-type]
        None,
        "call",
        user_properties=properties,
    )
