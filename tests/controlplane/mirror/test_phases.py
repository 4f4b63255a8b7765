"""The phases of an instant: what its writer and its files say, what is unknown, and clocks that run
backwards.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.mirror.models import InstantRecord
from controlplane.mirror.queries.phases import PhaseRow, instant_phases, phase_spreads, phases_of
from controlplane.mirror.sync import forget_mirror, sync_table
from tests.controlplane.lake import Lake
from workers.clock import SystemClock, format_instant, parse_instant
from workers.timeline.extra_metadata import PHASES_KEY, read_phases
from workers.timeline.metadata import read_commit_metadata

OSLO = {"id": "1", "ts": 1, "city": "Oslo"}
NAMES = ["requested", "inflight", "validated", "decided", "completed"]
AT_MS = 1_790_000_000_000
SPOKEN = {"inflight": AT_MS + 20, "validated": AT_MS + 700, "decided": AT_MS + 710}


class EachLookIsLater(SystemClock):
    """A clock that each look finds a second later."""

    looks = 0

    def now_ms(self) -> int:
        self.looks += 1
        return super().now_ms() + self.looks * 1_000


def record(**columns: object) -> InstantRecord:
    """A completed commit, requested at `AT_MS` and completed 710 ms later."""
    requested_at, completed_at = format_instant(AT_MS), format_instant(AT_MS + 710)
    given = {"requested_at": requested_at, "action": "commit", "completed_at": completed_at}
    return InstantRecord(**given | {"state": "completed"} | columns)


def durations(phases: list[PhaseRow]) -> list[int | str | None]:
    """How long each phase lasted, else its state."""
    assert [phase.name for phase in phases] == NAMES
    return [phase.duration_ms if phase.state == "known" else str(phase.state) for phase in phases]


def timeline_files(lake: Lake, instant: str) -> dict[str, Path]:
    """The instant's files by state."""
    layout, root = lake.table.layout, Path(lake.table.storage.location)
    parsed = [(layout.parse(path.name), path) for path in (root / layout.directory).iterdir()]
    return {at.state.value: path for at, path in parsed if at and at.requested_at == instant}


def date_files(lake: Lake, instant: str, at_ms: dict[str, int]) -> None:
    for state, path in timeline_files(lake, instant).items():
        os.utime(path, ns=(at_ms[state] * 1_000_000,) * 2)


def test_a_commit_says_when_it_came_to_what_its_writer_alone_knows(lake: Lake) -> None:
    instant = lake.commit(OSLO)
    said = read_commit_metadata(timeline_files(lake, instant)["completed"].read_bytes())
    sync_table(lake.row)

    moments = read_phases(said.extra_metadata[PHASES_KEY])
    phases = instant_phases(lake.row, instant)

    assert list(moments) == ["inflight", "validated", "decided"]
    assert parse_instant(instant) <= moments["inflight"] <= moments["validated"]
    assert moments["validated"] <= moments["decided"]
    assert [phase.at_ms for phase in phases][1:4] == list(moments.values())
    assert [phase.state for phase in phases] == ["known"] * 5
    assert PHASES_KEY not in InstantRecord.objects.get(requested_at=instant).metadata["extra"]


def test_no_phase_is_dated_after_the_completion_that_the_name_says(lake: Lake) -> None:
    ports = replace(lake.table.ports, clock=EachLookIsLater())
    instant = replace(lake, table=replace(lake.table, ports=ports)).commit(OSLO)
    completed = lake.table.timeline().find(instant)
    said = read_commit_metadata(timeline_files(lake, instant)["completed"].read_bytes())
    moments = read_phases(said.extra_metadata[PHASES_KEY])

    assert completed is not None
    assert completed.completed_at is not None
    dates_ms = [parse_instant(instant), *moments.values(), parse_instant(completed.completed_at)]
    assert dates_ms == sorted(set(dates_ms))


def test_a_commit_that_somebody_finished_later_was_decided_until_then(lake: Lake) -> None:
    instant = lake.commit(OSLO)
    at_ms = parse_instant(instant)
    ages_ms = {"requested": 1, "inflight": 2, "completed": 90_001}
    date_files(lake, instant, {state: at_ms + age for state, age in ages_ms.items()})
    sync_table(lake.row)

    *_, decided, completed = instant_phases(lake.row, instant)

    assert decided.duration_ms == (decided.at_ms and at_ms + 90_001 - decided.at_ms)
    assert completed.at_ms == at_ms + 90_001


def test_what_nobody_says_is_unknown_and_never_zero() -> None:
    assert durations(phases_of(record())) == [710, *["unknown"] * 3, None]
    assert durations(phases_of(record(completed_at=format_instant(AT_MS)))) == [
        None,
        *["unknown"] * 4,
    ], "a name of table version 6 has no time of completion"
    pending = record(completed_at=None, state="inflight", file_times={"requested": AT_MS + 5})
    assert durations(phases_of(pending)) == [None, *["unknown"] * 3, "not_yet"]


@pytest.mark.parametrize(
    ("said", "file_times", "expected"),
    [
        ({"inflight": 20, "validated": 10, "decided": 30}, {}, [20, "clock", 20, 680, None]),
        ({"inflight": -5, "validated": 10, "decided": 30}, {}, ["clock", 15, 20, 680, None]),
        ({"inflight": 20, "decided": 900}, {}, [20, 880, "unknown", "clock", None]),
        ({}, {"requested": 40, "inflight": 30, "completed": 99}, ["clock", 69, *[...] * 2, None]),
    ],
)
def test_a_clock_that_ran_backwards_makes_no_negative_duration(
    said: dict[str, int], file_times: dict[str, int], expected: list[object]
) -> None:
    metadata = {"phases": {name: AT_MS + at for name, at in said.items()}}
    times = {name: AT_MS + at for name, at in file_times.items()}

    phases = phases_of(record(metadata=metadata, file_times=times))

    assert durations(phases) == ["unknown" if one is ... else one for one in expected]
    assert all(phase.duration_ms is None or phase.duration_ms >= 0 for phase in phases)


@pytest.mark.parametrize("hours", [-12, 0, 14])
def test_another_engines_instant_is_timed_by_its_files_in_whatever_zone_its_name_is(
    hours: int,
) -> None:
    at_ms = AT_MS + hours * 3_600_000
    times = {"requested": at_ms, "inflight": at_ms + 30, "completed": at_ms + 80}

    assert durations(phases_of(record(file_times=times))) == [30, 50, *["unknown"] * 2, None]


def test_files_that_were_copied_here_do_not_tell() -> None:
    year_later = AT_MS + 365 * 86_400_000
    copied = {"requested": year_later, "inflight": year_later + 1, "completed": year_later + 3}

    theirs = phases_of(record(file_times=copied))
    ours = phases_of(record(file_times=copied, metadata={"phases": SPOKEN}))

    assert durations(theirs) == [710, *["unknown"] * 3, None]
    assert durations(ours) == [20, 680, 10, 0, None]


def test_whole_seconds_of_a_bucket_do_not_date_a_completion_before_its_decision() -> None:
    second = (AT_MS + 710) // 1000 * 1000
    times = {"requested": second, "inflight": second, "completed": second}

    phases = phases_of(record(file_times=times, metadata={"phases": SPOKEN}))

    assert durations(phases) == [20, 680, 10, 0, None]


@pytest.mark.parametrize(
    "text",
    [None, "", "[]", "nothing", '{"decided": "now"}', '{"decided": -1}', '{"decided": 1e400}',
     '{"decided": true}', '{"decided": 99999999999999999999}', '{"completed": 5}'],
)  # fmt: skip
def test_words_of_a_writer_that_are_no_times_are_left_out(text: str | None) -> None:
    assert read_phases(text) == {}


def test_page_and_api_show_the_phases_and_the_mirror_made_anew_has_them(
    lake: Lake, client: Client, viewer: User
) -> None:
    client.force_login(viewer)
    instant = lake.commit(OSLO)
    lake.commit(OSLO)
    sync_table(lake.row)
    phases = instant_phases(lake.row, instant)

    page = client.get(f"/t/{lake.row.slug}/timeline/instant/{instant}").content.decode()
    answer = json.loads(client.get(f"/api/v1/tables/{lake.row.slug}/instants/{instant}/").content)
    forget_mirror(lake.row)
    sync_table(lake.row)

    assert 'class="phase-swatch phase-validated"' in page
    assert [phase["name"] for phase in answer["phases"]] == NAMES
    assert [phase["at_ms"] for phase in answer["phases"]] == [one.at_ms for one in phases]
    assert "phases" not in answer["metadata"]
    assert instant_phases(lake.row, instant) == phases
    spreads = {one.name: one for one in phase_spreads(lake.row)}
    assert spreads["inflight"].writes >= 2
    assert 0 <= spreads["inflight"].p50_ms <= spreads["inflight"].p95_ms
