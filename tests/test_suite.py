"""How the workers share the suite, and what a run of it must have tried."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from typing import cast

import pytest

from tests.support.crash_count import CASES, CASES_LEAST, DRAWN_EVERY, SUITE_TESTS, CrashCount
from tests.support.sampling import EXPLORE, leave_to_soak
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


SUITE = 12
LEAST_OF_DRAWN = CASES_LEAST // DRAWN_EVERY


@pytest.mark.parametrize(
    ("cases", "passed", "fails"),
    [
        (CASES_LEAST, SUITE, False),
        (CASES_LEAST - 1, SUITE, True),
        (LEAST_OF_DRAWN, SUITE // DRAWN_EVERY, False),
        (LEAST_OF_DRAWN - 1, SUITE // DRAWN_EVERY, True),
        (1, SUITE // DRAWN_EVERY - 1, False),
    ],
    ids=["enough", "too few", "enough of a draw", "too few of a draw", "some tests"],
)
def test_crash_suite_with_too_few_distinct_cases_fails_the_run(
    cases: int, passed: int, fails: bool
) -> None:
    count = CrashCount()
    for number in range(passed):
        # What all tests tried is one case.
        count.pytest_runtest_logreport(
            _report((CASES, [str(one) for one in range(cases)]), (SUITE_TESTS, SUITE))
        )
        count.pytest_runtest_logreport(_report((CASES, [f"lost {number}"]), outcome="failed"))

    session = cast(pytest.Session, _Session())
    count.pytest_sessionfinish(session)

    assert session.exitstatus == (1 if fails else 0)


@pytest.mark.parametrize(("is_longer", "every"), [(True, 3), (False, 6)])
def test_of_neighbours_the_seed_draws_one_and_all_others_are_left_to_the_soak(
    is_longer: bool, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate draws half of the cases of a quick test."""
    monkeypatch.delenv(EXPLORE, raising=False)
    names = [f"test_{function}[{case}]" for function in "ab" for case in range(7)]
    drawn_by_seed = {seed: _drawn(names, seed, is_longer) for seed in range(60)}

    for drawn in drawn_by_seed.values():
        of_a, of_b = ([case for name, case in drawn if name == f"test_{one}"] for one in "ab")
        blocks = list(range(6 // every + 1))
        assert [case // every for case in of_a] == [case // every for case in of_b] == blocks
    assert _drawn(names, 5, is_longer) == drawn_by_seed[5]
    assert {one for drawn in drawn_by_seed.values() for one in drawn} == {
        (f"test_{function}", case) for function in "ab" for case in range(7)
    }


def test_what_was_collected_is_out_of_the_way_of_the_garbage_collector() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000


def _drawn(names: list[str], seed: int, is_longer: bool) -> list[tuple[str, int]]:
    """(function, case) of the tests that are not left to the soak."""
    tests = [_Test(f"tests/test_x.py::{name}", is_longer=is_longer) for name in names]
    plain = _Test("tests/test_x.py::test_plain", is_sampled=False)
    leave_to_soak(cast(list[pytest.Item], [*tests, plain]), seed)
    assert plain.added == []
    kept = [test.nodeid.rpartition("::")[2] for test in tests if "soak" not in test.added]
    return [(name.partition("[")[0], int(name[-2])) for name in kept]


@dataclass
class _Test:
    nodeid: str
    is_sampled: bool = True
    is_longer: bool = False
    added: list[str] = field(default_factory=list)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        if name != "sampled":
            return pytest.mark.slow.mark if self.is_longer and name == "slow" else None
        return pytest.mark.sampled(every=3).mark if self.is_sampled else None

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.added.append(marker.name)


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
