"""A whole node with its demo: with Apache Kafka, stopped and started, reset, and without."""

from __future__ import annotations

import os
import re
import sys
import time
from itertools import pairwise, product
from pathlib import Path
from statistics import quantiles

import pytest

from bench.support.s3_server import shared_server
from tests.controlplane.demo.story_walk import (
    event_to_eye_ms,
    expect_calm,
    find_tour,
    visitor,
    walk_pairs,
    walk_steps,
)
from tests.controlplane.node.test_up_and_down import Node, node, wait_until
from tests.support.storages import use_bucket
from workers.sink.state_file import SinkState, read_state
from workers.storage.opener import open_storage

__all__ = ["node"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def test_without_kafka_the_demo_says_why_and_the_rest_runs(node: Node, tmp_path: Path) -> None:
    dead = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1 -Dhttp.proxyHost=127.0.0.1"
    empty = f"-Dhttp.proxyPort=1 -Duser.home={tmp_path} -Dspark.jars.ivy={tmp_path}/ivy"
    node.environ["JAVA_TOOL_OPTIONS"] = f"{dead} {empty}"

    up = node.start()

    assert "The guided demo starts without its Kafka sink: could not fetch" in up.stdout
    assert "Connection refused" in up.stdout
    status = node.manage("status")
    assert status.returncode == 0, status.stdout
    assert "kafka" not in status.stdout


@pytest.mark.parametrize("place", ["directory", "bucket"])
def test_demo_goes_on_after_down_and_up_and_a_reset_leaves_nothing_of_it(
    node: Node, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "bucket":
        move_to_bucket(node, monkeypatch)
    up = node.start()
    fetched = "fetching Apache Kafka, once, which may take minutes\n"
    assert up.stdout.replace(fetched, "").splitlines()[3:] == [
        "The guided demo starts: Home leads through it, with first commits within a minute.",
        "`make down` stops the node and keeps its data.",
    ]
    commits(node, epoch=1)
    stored = offsets(node)

    assert node.manage("down").returncode == 0
    assert node.processes() == []
    assert node.manage("up").returncode == 0
    commits(node, epoch=2)
    assert all(offsets(node)[one] >= at for one, at in stored.items())

    reset = node.manage("demo", "--reset")
    assert reset.returncode == 0, reset.stdout + reset.stderr
    assert open_storage(table_root(node)).list_tree("") == []
    assert list((node.home / "tables").iterdir()) == []
    words = [" ".join(one.cmdline()) for one in node.processes()]
    assert [one for one in words if "kafka.Kafka" in one or "workers.spark.runner" in one] == []
    assert node.manage("demo", "--status").stdout == (
        "the demo was never started; run `make demo`\n"
    )

    assert node.manage("demo", "--start").returncode == 0
    commits(node, epoch=1)


@pytest.mark.soak
def test_story_of_the_demo_comes_true_step_by_step(node: Node) -> None:
    """Five to ten minutes on two cores: two Spark jobs start for most of its steps."""
    up = node.start()
    login = re.search(r"Log in as user (\w+), password (\S+)", up.stdout)
    assert login, up.stdout
    url = node.identity.url
    commits(node, epoch=1)

    with visitor(url, name=login[1], password=login[2]) as (page, complaints):
        expect_calm(page, url)
        latencies_ms = event_to_eye_ms(page, url, events=20)
        walk_steps(page, url)

    p95_ms = quantiles(latencies_ms, n=20, method="inclusive")[-1]
    sys.stdout.write(f"event to eye: {len(latencies_ms)} events, p95 {p95_ms:.0f} ms\n")
    assert complaints == []


def test_tour_of_steps_has_every_ordered_pair_once() -> None:
    tour = find_tour(6)

    assert sorted(pairwise(tour)) == list(product(range(6), repeat=2))


@pytest.mark.soak
@pytest.mark.timeout(3 * 3600)
def test_every_step_of_the_demo_keeps_its_promise_after_every_other(node: Node) -> None:
    """37 presses, about a minute each. `SLUICE_DEMO_PRESSES=5` presses the first five only."""
    up = node.start()
    login = re.search(r"Log in as user (\w+), password (\S+)", up.stdout)
    assert login, up.stdout
    url = node.identity.url
    commits(node, epoch=1)

    failed = []
    presses_max = int(os.environ.get("SLUICE_DEMO_PRESSES", "37"))
    with visitor(url, name=login[1], password=login[2]) as (page, complaints):
        for before, step, fault in walk_pairs(page, url, presses_max):
            sys.stdout.write(f"{before or 'nothing'} -> {step}: {fault or 'as promised'}\n")
            if fault:
                failed.append(f"{before} -> {step}: {fault}")

    assert failed == []
    assert complaints == []


def move_to_bucket(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before its start: let the node, and this process, keep its tables in a bucket."""
    root = use_bucket(monkeypatch)
    node.environ.update(shared_server().environment | {"SLUICE_TABLE_ROOTS": root})


def table_root(node: Node) -> str:
    return node.environ.get("SLUICE_TABLE_ROOTS", str(node.home / "tables"))


def sink_state(node: Node) -> SinkState | None:
    return read_state(open_storage(f"{table_root(node)}/shop_orders"), "shop-orders")


def commits(node: Node, *, epoch: int) -> None:
    """Waits for a transaction that the coordinator of this epoch begins from now on."""
    from_ms = int(time.time() * 1000)

    def has_committed() -> bool:
        state = sink_state(node)
        return (
            state is not None
            and state.epoch == epoch
            and any(
                one.outcome == "committed" and one.started_ms > from_ms
                for one in state.transactions
            )
        )

    wait_until(has_committed, seconds=240)


def offsets(node: Node) -> dict[int, int]:
    state = sink_state(node)
    assert state is not None
    return {one.partition: one.table_offset or 0 for one in state.participants}
