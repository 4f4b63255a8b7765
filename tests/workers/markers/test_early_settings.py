"""Hudi's keys of early conflict detection: defaults by marker type, and what is refused."""

from __future__ import annotations

import pytest

from workers.errors import InvalidInput
from workers.markers.base import early_from, early_text
from workers.options.early_detection import EarlyDetection, EarlyStrategy
from workers.options.write_keys import WRITE_OPTIONS
from workers.options.write_options import write_options

EARLY = "hoodie.write.concurrency.early.conflict"
ENABLE = f"{EARLY}.detection.enable"
STRATEGY = f"{EARLY}.detection.strategy"
DETECTOR = "hoodie.write.concurrency.async.conflict.detector"
MODE = "hoodie.write.concurrency.mode"
MARKERS = "hoodie.write.markers.type"
ON = {MODE: "OPTIMISTIC_CONCURRENCY_CONTROL", ENABLE: "true"}


def test_detection_is_off_unless_asked_for() -> None:
    assert write_options({}).early is None
    assert WRITE_OPTIONS.defaults[f"{DETECTOR}.period_ms"] == "30000"


@pytest.mark.parametrize(
    ("markers", "strategy"),
    [
        ("timeline_server_based", EarlyStrategy.ASYNCHRONOUS),
        ("direct", EarlyStrategy.TRANSACTIONAL_DIRECT),
    ],
)
def test_each_marker_type_has_hudis_default(markers: str, strategy: EarlyStrategy) -> None:
    assert write_options({**ON, MARKERS: markers}).early == EarlyDetection(strategy)


def test_all_keys_are_taken() -> None:
    given = {
        STRATEGY: "SimpleDirectMarkerBasedDetectionStrategy",
        MARKERS: "direct",
        f"{EARLY}.check.commit.conflict": "true",
        f"{DETECTOR}.initial_delay_ms": "10",
        f"{DETECTOR}.period_ms": "1000",
    }

    detection = write_options({**ON, **given}).early

    assert detection == EarlyDetection(EarlyStrategy.SIMPLE_DIRECT, True, 10, 1000)
    named = {STRATEGY: EarlyStrategy.SIMPLE_DIRECT.value}
    assert write_options({**ON, **given, **named}).early == detection


@pytest.mark.parametrize("mode", ["SINGLE_WRITER", "NON_BLOCKING_CONCURRENCY_CONTROL"])
def test_other_modes_are_refused_with_the_mode_to_set(mode: str) -> None:
    with pytest.raises(InvalidInput, match="OPTIMISTIC_CONCURRENCY_CONTROL"):
        write_options({**ON, MODE: mode})


@pytest.mark.parametrize(
    "given",
    [
        {STRATEGY: "com.example.Own"},
        {STRATEGY: EarlyStrategy.SIMPLE_DIRECT.value},  # The markers are the server's.
        {STRATEGY: EarlyStrategy.ASYNCHRONOUS.value, MARKERS: "direct"},
        {f"{DETECTOR}.period_ms": "0"},
        {f"{DETECTOR}.initial_delay_ms": "-1"},
        {f"{EARLY}.detection.enabled": "true"},
    ],
)
def test_nonsense_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        write_options({**ON, **given})


def test_a_request_carries_the_settings_to_the_server() -> None:
    settings = EarlyDetection(EarlyStrategy.ASYNCHRONOUS, True, 10, 1000)

    assert early_from(early_text(settings)) == settings


@pytest.mark.parametrize(
    "text", ["", "1,1000", "0,1,true", "0,1000,yes", "0,-1,true", "0x,1000,true"]
)
def test_a_request_with_other_settings_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        early_from(text)
