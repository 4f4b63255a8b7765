"""A whole node whose demo cannot have Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.node.test_up_and_down import Node, node

__all__ = ["node"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def test_without_kafka_the_demo_says_why_and_the_rest_runs(node: Node, tmp_path: Path) -> None:
    dead = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1 -Dhttp.proxyHost=127.0.0.1"
    empty = f"-Dhttp.proxyPort=1 -Duser.home={tmp_path} -Dspark.jars.ivy={tmp_path}/ivy"
    node.environ["JAVA_TOOL_OPTIONS"] = f"{dead} {empty}"

    up = node.manage("up")

    assert up.returncode == 0, up.stdout + up.stderr
    assert "the demo has no sink: could not resolve Kafka's jars" in up.stdout
    assert "Connection refused" in up.stdout
    status = node.manage("status")
    assert status.returncode == 0, status.stdout
    assert "kafka" not in status.stdout
