"""What the demo adds to a node: two processes, a check of its Kafka, and its start at the end of
`up`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.core.management.base import CommandError

from controlplane.demo.processes import KAFKA, ORDERS, broker_home, processes
from controlplane.demo.reset import start_all
from controlplane.demo.streams import DemoRun
from controlplane.demo.upkeep import admin
from controlplane.errors import ControlPlaneError
from controlplane.node.additions import Addition
from controlplane.node.doctor import Finding
from controlplane.node.places import Places
from controlplane.node.readiness import Probe, port_answers, runs
from controlplane.node.supervision import Supervisor
from workers.clock import SystemClock
from workers.demo.ports import read_ports
from workers.errors import LakehouseError
from workers.sink.kafka.broker import PACKAGE, find_cached_jars


def probes(places: Places, supervisor: Supervisor) -> dict[str, Probe]:
    """One probe for each process that the demo has started and that has not ended by itself."""
    states = supervisor.states()
    own: dict[str, Probe] = {}
    if KAFKA in states and not states[KAFKA].is_over and (ports := read_ports(broker_home(places))):
        own[KAFKA] = lambda: port_answers(ports[0])
    if ORDERS in states and not states[ORDERS].is_over:
        own[ORDERS] = lambda: runs(supervisor, ORDERS)
    return own


def check_kafka(places: Places) -> Finding:
    """Nothing is wrong where it is not there."""
    if jars := find_cached_jars(broker_home(places)):
        return Finding("demo's kafka", True, f"{PACKAGE}, {len(jars)} jars are here")
    line = f"{PACKAGE} is fetched when the demo first starts; without a network it has no sink"
    return Finding("demo's kafka", True, line)


def start(say: Callable[[str], object]) -> str:
    """Start the demo; return a sentence on it. Raises CommandError where streams cannot start."""
    try:
        started = start_all(admin(), DemoRun(), SystemClock(), say)
    except (ControlPlaneError, LakehouseError) as error:
        raise CommandError(str(error)) from error
    if started.problem:
        return f"The guided demo starts without its Kafka sink: {started.problem}."
    return "The guided demo starts: Home leads through it, with first commits within a minute."


ADDITION: Final = Addition(
    name="demo",
    help_without="start no demo streams (they can be started later)",
    processes=processes,
    probes=probes,
    checks=lambda places: (check_kafka(places),),
    start=start,
)
