"""A whole node whose only table root is in a bucket: loads, SQL, a rollback, the end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.support.s3_server import shared_server
from tests.controlplane.node.test_up_and_down import Node, node_in
from tests.support.storages import use_bucket
from workers.lakehouse import open_table
from workers.public.sluice_client import Client
from workers.storage.opener import open_storage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

COLUMNS = [{"name": name, "type": "string"} for name in ("id", "city")]
SOON_S = 600.0


@dataclass(frozen=True, slots=True)
class BucketNode:
    node: Node
    root: str

    @property
    def drop(self) -> str:
        """The only source root."""
        return f"{self.root}-drop"

    def connect(self) -> Client:
        created = self.node.manage("token", "create", "admin")
        assert created.returncode == 0, created.stderr
        return Client(self.node.identity.url, created.stdout.strip())

    def end(self) -> None:
        """Stop the node, and check that its files hold no credentials of the bucket."""
        assert self.node.manage("down").returncode == 0
        secret = shared_server().environment["AWS_SECRET_ACCESS_KEY"].encode()
        files = [path for path in self.node.home.rglob("*") if path.is_file()]
        assert [path for path in files if secret in path.read_bytes()] == []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BucketNode]:
    with node_in(tmp_path / "home") as node:
        place = BucketNode(node, use_bucket(monkeypatch))
        roots = {"SLUICE_TABLE_ROOTS": place.root, "SLUICE_SOURCE_ROOTS": place.drop}
        node.environ.update(shared_server().environment | roots)
        yield place


def test_node_loads_queries_and_rolls_back_a_table(place: BucketNode, tmp_path: Path) -> None:
    open_storage(place.drop).put("day.csv", b"id,city\n2,Bergen\n")
    local = tmp_path / "one.csv"
    local.write_text("id,city\n1,Oslo\n")
    place.node.start("--no-demo")
    select = "SELECT city FROM trips ORDER BY city"
    with place.connect() as client:
        client.create_table(f"{place.root}/trips", "trips", columns=COLUMNS, record_key=["id"])
        load(client, client.upload(local)["path"])
        newest = load(client, f"{place.drop}/day.csv")
        assert client.sql(select)["rows"] == [["Bergen"], ["Oslo"]]

        plan = client.plan_rollback("trips", newest)
        undo = client.roll_back("trips", plan, reason="a test")
        client.wait(undo["row"]["id"], timeout_s=SOON_S)

        assert client.sql(select)["rows"] == [["Oslo"]]
    assert open_table(f"{place.root}/trips").read(columns=["city"]).to_pylist() == [
        {"city": "Oslo"}
    ]
    place.end()


def load(client: Client, path: str) -> str:
    """Write the rows of a CSV file, and return the instant."""
    started = client.write("trips", {"kind": "csv", "path": path})
    return client.wait(started["row"]["id"], timeout_s=SOON_S)["row"]["instant"]
