"""Traces reach a collector, whole and without a secret; who wants none loads nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.support.marker_server import start_marker_server
from tests.support.collector import spans_of, wait_for_spans
from tests.support.receivers import receiving
from workers.traces import are_wanted

PROJECT = Path(__file__).resolve().parents[2]
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET = "c4nary-marker-secret"
PHASES = {"begin", "commit", "validate", "decide", "publish"}


@contextmanager
def marker_server(root: Path, log: Path) -> Iterator[int]:
    server = start_marker_server(roots=[root], secret=SECRET, log=log)
    yield server.port
    server.stop()


def environment(**own: str) -> dict[str, str]:
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("OTEL_")}
    return {**inherited, "PYTHONPATH": str(PROJECT), "SLUICE_MARKER_SECRET": SECRET, **own}


def run(*words: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


@pytest.mark.slow
def test_a_write_is_traced_from_who_started_its_process_to_the_published_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving() as collector:
        address = f"http://127.0.0.1:{collector.port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        with marker_server(tmp_path, tmp_path / "server.log") as port:
            own = {
                "OTEL_EXPORTER_OTLP_ENDPOINT": address,
                "OTEL_EXPORTER_OTLP_HEADERS": "api-key=c4nary-of-a-header",
                "TRACEPARENT": f"00-{TRACE}-{SPAN}-01",
                "AWS_SECRET_ACCESS_KEY": "c4nary-of-a-key",
            }
            place = str(tmp_path / "traced")
            words = ("-m", "tests.support.traced_writer", place, str(port))
            done = run(*words, environment=environment(**own))
            sent = wait_for_spans(collector, {"marker batch", "broken"})

        assert done.stdout == "Committed\n"
        assert [one.headers["api-key"] for one in collector.received if "api-key" in one.headers]
    by_name = {span.name: span for span in sent}
    driver = by_name["driver"]
    assert (driver.service, driver.trace, driver.parent) == ("traced-writer", TRACE, SPAN)
    phases = {name: by_name[f"transaction {name}"] for name in PHASES}
    assert {span.trace for span in phases.values()} == {TRACE}
    assert {phases[name].parent for name in ("begin", "commit")} == {driver.span}
    assert {phases[name].parent for name in ("validate", "decide", "publish")} == {
        phases["commit"].span
    }
    instants = {span.attributes["sluice.instant"] for span in phases.values()}
    batch = by_name["marker batch"]
    assert instants == {batch.attributes["sluice.instant"]}
    assert (batch.service, batch.attributes["sluice.markers"]) == ("sluice-markers", 1)
    assert phases["commit"].attributes["sluice.outcome"] == "Committed"
    assert (driver.attributes["said"], by_name["broken"].failed_with) == (
        "password=***",
        "ValueError",
    )
    assert phases["commit"].attributes["sluice.writer"] == "w-***"
    assert b"c4nary" not in b"".join(request.body for request in collector.received)


def test_who_wants_no_traces_loads_nothing_of_them_and_sends_none() -> None:
    code = (
        "import os, sys; from workers.traces import configure_traces, current_parent, span;"
        "configure_traces(os.environ, 'quiet');\n"
        "with span('nothing') as current: current.note({'a': 1}); assert current_parent() == ''\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )

    with receiving() as collector:
        off = {
            "SLUICE_TRACES": "0",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}",
        }
        assert run("-c", code, environment=environment()).stdout == "[]\n"
        assert run("-c", code, environment=environment(**off)).stdout == "[]\n"
        assert spans_of(collector) == []


def test_without_the_packages_a_process_goes_on_and_says_what_to_install() -> None:
    code = (
        "import logging, os, sys; logging.basicConfig(); sys.modules['opentelemetry'] = None\n"
        "from workers.traces import configure_traces, span\n"
        "configure_traces(os.environ, 'bare')\n"
        "with span('nothing'): print('works')"
    )

    done = run("-c", code, environment=environment(SLUICE_TRACES="1"))

    assert done.stdout == "works\n"
    [line] = done.stderr.splitlines()
    assert "pip install -r requirements-otel.txt" in line


@pytest.mark.parametrize(
    ("named", "wanted"),
    [
        ({}, False),
        ({"SLUICE_TRACES": "1"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "SLUICE_TRACES": "0"}, False),
        ({"OTEL_SERVICE_NAME": "lake"}, False),
    ],
)
def test_traces_are_wanted_by_a_variable(named: dict[str, str], wanted: bool) -> None:
    assert are_wanted(named) is wanted
