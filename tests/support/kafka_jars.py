"""The jars of Apache Kafka.

`python -m tests.support.kafka_jars` fetches them, once for each checkout (half a minute): a test
may not take as long as a slow network needs.
"""

from __future__ import annotations

import sys
from pathlib import Path

from workers.errors import KafkaFailed
from workers.sink.kafka.broker import PACKAGE, find_cached_jars, load_class_path

KEPT = Path(__file__).resolve().parents[2] / "var" / "peers" / "kafka"
_FETCH = "make kafka-jars"
_QUICK_S = 100.0
"""Much less than a test may take; a third of it is usual."""


class KafkaJarsMissing(AssertionError):
    """Kafka's jars are not there and could not be fetched in time."""


def require_class_path(kept: Path = KEPT, *, within_s: float = _QUICK_S) -> str:
    """Return what Java needs to run Kafka.

    Raises KafkaJarsMissing, with the command that fetches the jars, if they are missing and cannot
    be fetched quickly.
    """
    try:
        return load_class_path(kept, within_s=within_s)
    except KafkaFailed as error:
        raise KafkaJarsMissing(f"Kafka's jars are missing; run `{_FETCH}`: {error}") from error


def main() -> None:
    try:
        load_class_path(KEPT)
    except KafkaFailed as error:
        sys.exit(str(error))
    sys.stdout.write(f"{PACKAGE} is ready: {len(find_cached_jars(KEPT))} jars\n")


if __name__ == "__main__":
    main()
