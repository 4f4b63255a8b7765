"""One operation of each kind on a node: its table, the request over the API, what must be true of
it at the end.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from controlplane.operations.models import Operation
from controlplane.operations.states import FINAL
from controlplane.operations.table_service_proof import service_proof
from controlplane.operations.verification import rollback_proof
from tests.controlplane.lake import Lake
from tests.controlplane.prepared_tables import Prepared, fresh_lake, prepare, rows_of
from tests.support.node_api import NodeApi
from workers import open_table
from workers.concurrency.heartbeat import read_heartbeats
from workers.concurrency.outcome import Committed

WHY = {"reason": "a test of deaths"}


@dataclass
class Requested:
    """An operation on a table of its own."""

    api: NodeApi
    lake: Lake
    prepared: Prepared
    operation_id: str = ""

    @property
    def kind(self) -> str:
        return self.prepared.kind

    @property
    def location(self) -> Path:
        return Path(self.lake.row.location)

    @property
    def slug(self) -> str:
        return self.lake.row.slug

    def ask(self) -> None:
        self.operation_id = self._requested()["row"]["id"]

    def seen(self) -> dict[str, Any]:
        """As the API shows it now."""
        shown: dict[str, Any] = self.api.get(f"operations/{self.operation_id}/")
        return shown

    def is_over(self) -> bool:
        """With whatever was asked for twice because the first answer was lost. And swept up, since
        who dies behind its commit leaves a heartbeat.
        """
        rows = self.api.get(f"tables/{self.slug}/operations/")["results"]
        table = open_table(self.location).table
        is_swept = not list(table.timeline().pending()) and not read_heartbeats(table.storage)
        return is_swept and all(one["state"] in FINAL for one in rows)

    def check_end(self, *, may_fail: bool) -> None:
        """It is done with its proof, or was never done, and nothing of it is pending. Only a write
        may end without its effect, by the death of its driver or of Spark.
        """
        shown = self.seen()
        row = shown["row"]
        seen = (self.kind, row["state"], row["message"], row["attempts"], shown)
        if self.kind == "write":
            ends = ("succeeded", "failed", "rolled_back") if may_fail else ("succeeded",)
            assert row["state"] in ends, seen
        else:
            assert row["state"] == "succeeded", seen
            assert self._is_proved(shown), seen
        is_done = row["state"] == "succeeded"
        expected = self.prepared.rows_after if is_done else self.prepared.rows_before
        assert rows_of(self.location) == expected, seen

    def check_next_write(self) -> None:
        """Whoever writes next waits for nobody."""
        batch = pa.Table.from_pylist([{"id": "99", "ts": 99, "city": "Bodø"}])
        options = {"hoodie.write.markers.type": "direct"}
        table = open_table(self.location)
        if self.kind == "upgrade":
            return  # What is not adopted takes no write.
        outcome = table.write(batch, options=options)
        assert isinstance(outcome, Committed), (self.kind, outcome)

    def _requested(self) -> Any:
        path, given = f"tables/{self.slug}", {"table_name": self.slug, **WHY}
        match self.kind:
            case "write":
                body = {"source": self.prepared.parameters, **WHY}
                return self.api.post(f"{path}/operations/", body)
            case "rollback":
                instant = {"instant": self.prepared.newest}
                plan = self.api.post(f"{path}/rollbacks/plan/", instant)
                body = {**instant, "plan_hash": plan["plan_hash"], **given}
                return self.api.post(f"{path}/rollbacks/", body)
            case service:
                parameters = {"parameters": self.prepared.parameters}
                plan = self.api.post(f"{path}/services/{service}/plan/", parameters)
                body = {**parameters, "plan_hash": plan["plan_hash"], **given}
                return self.api.post(f"{path}/services/{service}/", body)

    def _is_proved(self, shown: dict[str, Any]) -> bool:
        row = shown["row"]
        operation = Operation(
            id=uuid.UUID(row["id"]),
            table=self.lake.row,
            kind=row["kind"],
            service=row["service"],
            instant=row["instant"],
            parameters=shown["parameters"],
            plan=shown["plan"],
        )
        if self.kind == "rollback":
            return rollback_proof(self.lake.row, operation.instant, operation.plan).is_proved
        return service_proof(operation).is_proved


def prepared_table(api: NodeApi, tables: Path, kind: str, folder: Path) -> Requested:
    """A fresh table below the node's root, known to the node."""
    slug = f"{kind.replace('_', '-')}-{uuid.uuid4().hex[:8]}"
    lake = fresh_lake(tables / slug, kind)
    own = folder / slug
    own.mkdir()
    prepared = prepare(lake, kind, own)
    registration = {"location": lake.row.location, "slug": slug, "name": slug}
    api.post("tables/", registration)
    return Requested(api, lake, prepared)
