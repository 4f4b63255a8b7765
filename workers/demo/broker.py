"""Become the demo's broker: `python -m workers.demo.broker <directory>`, as the supervisor
calls it. The process is Kafka's own afterwards, so that a signal to it is one to Kafka.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from workers.demo.ports import read_ports
from workers.errors import InvalidInput
from workers.sink.kafka.broker import Broker, load_class_path

HEAP_MB: Final = 256
_SETTINGS: Final = {
    # A demo may run for weeks; what the sink has long taken may go.
    "log.retention.bytes": str(64 << 20),
    "log.segment.bytes": str(16 << 20),
    "log.cleaner.dedupe.buffer.size": str(4 << 20),
    # It shares a small machine, and nobody takes over from it.
    "broker.session.timeout.ms": "18000",
    "broker.heartbeat.interval.ms": "2000",
}


def main(directory: Path) -> None:
    """Start the demo's broker in this directory. Raises InvalidInput where nobody has chosen its
    ports, KafkaFailed.
    """
    ports = read_ports(directory)
    if ports is None:
        raise InvalidInput("the demo's broker has no ports yet", directory=str(directory))
    class_path = load_class_path(directory)
    command = Broker(
        directory, class_path, ports=ports, settings=_SETTINGS, heap_mb=HEAP_MB
    ).prepare()
    os.chdir(directory)
    os.execvp(command[0], command)  # noqa: S606  (a list of words, no shell)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
