"""An admin requests a rollback on its page, and a Celery worker of the node carries it out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import requests

from tests.controlplane.node.test_up_and_down import Node, log_in, login, node, wait_until
from workers.lakehouse import open_table

__all__ = ["node"]
pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(900)]


def test_rollback_that_an_admin_requests_is_run_by_celery(node: Node, tmp_path: Path) -> None:
    up = node.manage("up", "--no-demo")
    assert up.returncode == 0, up.stdout + up.stderr
    for day, city in (("1", "Oslo"), ("2", "Bergen")):
        source = tmp_path / "people.csv"
        source.write_text(f"id,day,city\na,{day},{city}\n")
        write = node.manage("write", str(source), "--no-spark", "--ordering", "day")
        assert write.returncode == 0, write.stdout + write.stderr
    table = open_table(node.home / "tables" / "people")
    newest = table.timeline()[-1].requested_at
    admin = log_in(node, *login(up.stdout))

    plan = f"{node.identity.url}t/people/rollback/{newest}"
    wait_until(lambda: admin.get(plan, timeout=30).status_code == 200, seconds=60)
    form = hidden_fields(admin.get(plan, timeout=30))
    form |= {"typed_name": "people", "reason": "loaded the wrong day"}
    requested = admin.post(plan, data=form, headers={"Referer": plan}, timeout=30)
    assert "/operations/" in requested.url, requested.text
    operation = requested.url.rstrip("/").rsplit("/", 1)[1]

    def state() -> str:
        address = f"{node.identity.url}api/v1/operations/{operation}/"
        return str(admin.get(address, timeout=30).json()["row"]["state"])

    wait_until(lambda: state() in ("succeeded", "failed"), seconds=120)
    assert state() == "succeeded"
    assert newest not in [instant.requested_at for instant in table.timeline()]
    assert [row["city"] for row in table.read().to_pylist()] == ["Oslo"]


def hidden_fields(page: requests.Response) -> dict[str, str]:
    assert page.status_code == 200, page.text
    tags = re.findall(r"<input[^>]*>", page.text)
    hidden = [dict(re.findall(r'([a-z]+)="([^"]*)"', tag)) for tag in tags]
    return {tag["name"]: tag["value"] for tag in hidden if tag.get("type") == "hidden"}
