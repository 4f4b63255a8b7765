"""Lines of an operation's log are read as they were written, each once, whatever they carry."""

from __future__ import annotations

import logging
import sys
import uuid
from pathlib import Path

import pytest

from workers.log_lines import LineFormatter, bind
from workers.masking import Masker
from workers.reporting.stored_lines import (
    BEHIND_BYTES_MAX,
    LINES_MAX,
    LogLine,
    escape_line,
    read_lines,
)

NOW_MS = 1_700_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "worker-0.log"


def written(level: int, message: str, *, is_json: bool = False, **more: object) -> str:
    record = logging.LogRecord("workers.write", level, "", 0, message, (), None)
    record.created = 1_700_000_001.5
    record.exc_info = more.get("exc_info")  # type: ignore[assignment]
    return LineFormatter(is_json=is_json).format(record) + "\n"


def read(path: Path, position: int = 0, *, is_over: bool = False) -> tuple[list[LogLine], int]:
    masker = Masker(["s3cret-value"])
    piece = read_lines(path, position, now_ms=NOW_MS, masker=masker, is_over=is_over)
    return piece.lines, piece.position


@pytest.mark.parametrize("is_json", [False, True])
def test_a_line_is_read_as_it_was_logged(is_json: bool, path: Path) -> None:
    bind(request_id="0123456789abcdef", operation_id=str(uuid.UUID(int=7)))
    path.write_text(written(logging.WARNING, "lost a race", is_json=is_json))
    bind(request_id="", operation_id="")

    [line], position = read(path)

    assert line == LogLine(0, 1_700_000_001_500, logging.WARNING, "workers.write", "lost a race")
    assert position == path.stat().st_size


@pytest.mark.parametrize(("is_json", "end"), [(False, "\\x0a"), (True, "\\n")])
def test_a_traceback_and_line_breaks_are_one_line(is_json: bool, end: str, path: Path) -> None:
    forged = "2026-01-01T00:00:00.000+00:00 INFO forged all is well"
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        caught = sys.exc_info()
    path.write_text(written(logging.ERROR, f"failed\n{forged}", is_json=is_json, exc_info=caught))

    [line], _ = read(path)

    assert line.level == logging.ERROR
    assert line.message.startswith(f"failed{end}{forged}{end}Traceback")
    assert line.message.endswith(f"ValueError: first{end}second")


@pytest.mark.parametrize("text", ["{}", '{"at": 1}', "{not json", '{"at":"x","level":"INFO"}'])
def test_what_only_begins_like_an_event_is_output(text: str, path: Path) -> None:
    path.write_text(text + "\n")

    [line], _ = read(path)

    assert (line.source, line.message) == ("output", text)


@pytest.mark.parametrize("mark", ["\n", "\r", "\x1b", "\x00", "\x9b", "\u202e", "\u2028", "\u2066"])
def test_no_mark_reaches_a_terminal(mark: str) -> None:
    harmless = escape_line(f"a{mark}b")

    assert mark not in harmless
    assert harmless.startswith("a\\")
    assert escape_line("\ud800 Straße") == "? Straße"


def test_output_beside_the_log_is_a_line_of_its_own(path: Path) -> None:
    path.write_bytes(b"Fatal Python error: \x1b[31mSegmentation fault password=abc\xff\n\n")

    [line], position = read(path)

    assert (line.source, line.level, line.at_ms) == ("output", logging.INFO, NOW_MS)
    assert line.message == "Fatal Python error: \\x1b[31mSegmentation fault password=***"
    assert position == path.stat().st_size


def test_half_a_line_waits_for_its_end_unless_nobody_writes_it(path: Path) -> None:
    whole = written(logging.INFO, "whole")
    path.write_text(whole + "Kil")

    lines, position = read(path)
    assert [line.message for line in lines] == ["whole"]
    assert read(path, position) == ([], position)
    [half], end = read(path, position, is_over=True)

    assert (half.message, half.number, end) == ("Kil", len(whole), len(whole) + 3)


def test_every_line_is_read_once_in_order(path: Path) -> None:
    path.write_text("".join(written(logging.INFO, f"line {at}") for at in range(1_000)))

    messages, position = [], 0
    while lines := read(path, position)[0]:
        assert len(lines) <= LINES_MAX
        messages += [line.message for line in lines]
        position = read(path, position)[1]

    assert messages == [f"line {at}" for at in range(1_000)]


def test_a_line_longer_than_any_report_is_cut_and_says_so(path: Path) -> None:
    path.write_text("x" * 150_000 + "\nafter\n")

    messages, position = [], 0
    while lines := read(path, position)[0]:
        messages += [line.message for line in lines]
        position = read(path, position)[1]

    assert messages[-1] == "after"
    assert all(len(message) < 4_100 for message in messages)
    assert "characters more" in messages[0]


def test_a_file_that_grew_too_fast_is_passed_over_and_says_so(path: Path) -> None:
    path.write_text(written(logging.INFO, "x" * 1_000) * 3_000)
    assert path.stat().st_size > BEHIND_BYTES_MAX

    [said], position = read(path)

    assert (said.source, said.level, said.number) == ("log", logging.WARNING, 0)
    assert said.message.startswith(f"{position} bytes were left out here")
    assert read(path, position)[0]


def test_no_file_is_no_line(path: Path) -> None:
    assert read(path) == ([], 0)
