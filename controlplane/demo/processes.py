"""The demo's processes: its broker, and what produces to its topic. The demo starts them, not the
node. Pure values.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from controlplane.node.places import PROJECT, Places
from controlplane.node.processes import Process

KAFKA: Final = "kafka"
ORDERS: Final = "orders"
_LAUNCHER: Final = "controlplane.demo.launch"


def broker_home(places: Places) -> Path:
    """The broker's; made when the demo begins."""
    return places.home / "kafka"


def processes(places: Places) -> tuple[Process, ...]:
    home = str(broker_home(places))
    # It becomes the broker, on the ports that its directory remembers.
    broker = (sys.executable, "-m", "workers.demo.broker", home)
    feed = (sys.executable, "-m", "workers.demo.feed", home)
    return (
        Process(KAFKA, broker, {}, PROJECT, 20, launcher=_LAUNCHER, starts_with_node=False),
        Process(ORDERS, feed, {}, PROJECT, 10, launcher=_LAUNCHER, starts_with_node=False),
    )
