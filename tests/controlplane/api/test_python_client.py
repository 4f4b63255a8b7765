"""The Python client against a real server: rows page by page, problems as exceptions, and a change
that has one effect although its answer was lost.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import UUID

import pytest
import requests
from django.contrib.auth.models import User
from pytest_django.live_server_helper import LiveServer

from controlplane.accounts.models import Grant
from controlplane.accounts.tokens import create_token
from controlplane.api.client_rows import FILE, client_rows
from controlplane.mirror.sync import sync_table
from controlplane.operations.models import Operation
from controlplane.operations.moves import move
from controlplane.operations.states import OperationState
from controlplane.tables.models import Table
from tests.controlplane.api.test_endpoints import make_instants
from tests.controlplane.approvals import needs_approval
from tests.controlplane.lake import Lake
from workers.processes import find_free_port
from workers.public.sluice_client import Client, NodeUnreachable, OperationFailed, ProblemError
from workers.public.sluice_client import connection as client_connection

SOURCE = {"kind": "csv", "path": "/data/a.csv"}


class ForgetfulProxy(ThreadingHTTPServer):
    """Hands requests on to a server, and loses the answer to the first change."""

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Forwarding)
        self.target = target
        self.changes = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Forwarding(BaseHTTPRequestHandler):
    server: ForgetfulProxy

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name: text for name, text in self.headers.items() if name != "Host"}
        answer = requests.post(self.server.target + self.path, body, headers=headers, timeout=60)
        self.server.changes += 1
        if self.server.changes == 1:
            self.close_connection = True
            return
        self.send_response(answer.status_code)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_arguments: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def token(operator: User) -> str:
    return str(create_token(operator, scope="administer")[1])


@pytest.fixture
def node(live_server: LiveServer, token: str) -> Iterator[Client]:
    with Client(live_server.url, token) as client:
        yield client


@pytest.fixture
def proxy(live_server: LiveServer) -> Iterator[ForgetfulProxy]:
    server = ForgetfulProxy(live_server.url)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_connection, "PAUSE_S", 0.01)


def test_its_rows_are_those_of_the_openapi_document() -> None:
    assert FILE.read_text(encoding="utf-8") == client_rows(), "run `manage.py client_rows`"


def test_several_tables_are_tagged_in_one_call(node: Client, operator: User, synced: Table) -> None:
    Grant.objects.create(user=operator, table=synced, role="admin")

    first = node.tag_tables(["trips"], add="gold pii", reason="audit")
    again = node.tag_tables(["trips"], add="pii", remove="raw", reason="audit")

    assert (first["changed"], again["unchanged"]) == (["trips"], ["trips"])
    assert node.table("trips")["tags"] == "gold pii"


def test_tables_and_all_their_instants_are_read_page_by_page(node: Client, synced: Table) -> None:
    synced.instants.all().delete()
    make_instants(synced, 120)

    (table,) = node.tables()
    instants = [row["requested_at"] for row in node.instants("trips")]
    rollbacks = [row["action"] for row in node.instants("trips", actions=["rollback"])]

    assert (table["slug"], node.table("trips")["name"]) == ("trips", "Trips")
    assert len(set(instants)) == 120
    assert instants == sorted(instants, reverse=True)
    assert set(rollbacks) == {"rollback"}
    assert node.writers("trips") == []
    assert node.marker_directories("trips") == []
    assert (node.marker_server()["state"], node.marker_server()["recent"]) == ("down", None)


def test_a_statement_overwrites_by_the_plan_that_was_looked_at(
    live_server: LiveServer, admin: User, synced: Table
) -> None:
    source = {"kind": "sql", "statement": "SELECT id, ts, city FROM trips"}
    with Client(live_server.url, str(create_token(admin, scope="administer")[1])) as node:
        plan = node.plan_overwrite("trips", source)
        detail = node.overwrite("trips", source, plan, reason="rebuilt")
        with pytest.raises(ProblemError) as refused:
            node.overwrite("trips", source, {**plan, "plan_hash": "0" * 16}, reason="rebuilt")

        assert detail["row"]["kind"] == "write"
        assert refused.value.code == "plan_changed"
        assert node.schedules("trips") == []
        assert "mirror" in {check["name"] for check in node.health("trips")}


def test_a_list_is_saved_as_a_file(node: Client, synced: Table) -> None:
    file = io.BytesIO()

    node.save_list("tables/", file, file_format="csv", fields=["slug", "name"])

    assert sorted(file.getvalue().decode().splitlines()[0].split(",")) == ["name", "slug"]
    assert "trips" in file.getvalue().decode().splitlines()[1]
    with pytest.raises(ProblemError) as refused:
        node.save_list("tables/", io.BytesIO(), file_format="xlsx")
    assert refused.value.code == "invalid_request"


def test_what_the_node_refuses_is_a_problem_with_its_code(node: Client, synced: Table) -> None:
    with pytest.raises(ProblemError) as missing:
        node.table("no/such ../table")
    with pytest.raises(ProblemError) as wrong:
        node.write("trips", SOURCE, operation="upsort")
    with pytest.raises(ProblemError) as refused:
        node.plan_rollback("trips", "20260101000000000")

    assert (missing.value.status, missing.value.code) == (404, "not_found")
    assert (wrong.value.status, wrong.value.code) == (400, "invalid_request")
    assert "upsort" in str(wrong.value)
    assert wrong.value.request_id in str(wrong.value)
    assert (refused.value.status, refused.value.code) == (403, "permission_denied")


def test_a_change_whose_answer_is_lost_is_one_operation(
    proxy: ForgetfulProxy, token: str, synced: Table
) -> None:
    with Client(proxy.address, token) as node:
        detail = node.write("trips", SOURCE)

    assert proxy.changes == 2
    assert [str(row.pk) for row in Operation.objects.all()] == [detail["row"]["id"]]


def test_two_changes_are_two_and_one_key_is_one(node: Client, synced: Table) -> None:
    first, second = node.write("trips", SOURCE), node.write("trips", SOURCE)
    third, again = node.write("trips", SOURCE, key="k"), node.write("trips", SOURCE, key="k")

    ids = [detail["row"]["id"] for detail in (first, second, third, again)]
    assert len(set(ids)) == 3
    assert third["row"]["id"] == again["row"]["id"]


def test_a_rollback_goes_by_the_plan_that_was_looked_at(
    live_server: LiveServer, admin: User, lake: Lake
) -> None:
    lake.commit({"id": "1", "ts": 1, "city": "Oslo"})
    newest = lake.commit({"id": "2", "ts": 2, "city": "Turku"})
    sync_table(lake.row)
    with Client(live_server.url, create_token(admin, scope="administer")[1]) as node:
        plan = node.plan_rollback("trips", newest)
        with pytest.raises(ProblemError) as void:
            node.roll_back("trips", {**plan, "plan_hash": "0" * 64}, reason="wrong rows")
        detail = node.roll_back("trips", plan, reason="wrong rows")

    assert void.value.code == "plan_changed"
    assert detail["row"]["kind"] == "rollback"
    assert detail["plan_hash"] == plan["plan_hash"]


def test_waiting_ends_with_the_operation(node: Client, synced: Table) -> None:
    queued = node.write("trips", SOURCE)["row"]["id"]
    with pytest.raises(TimeoutError, match="queued"):
        node.wait(queued, timeout_s=0)
    assert node.cancel(queued, reason="not now")["row"]["state"] == "cancelling"
    move(UUID(queued), OperationState.CANCELLED, message="cancelled before it began")

    with pytest.raises(OperationFailed, match="cancelled"):
        node.wait(queued, timeout_s=20)


def test_a_node_that_is_not_there_is_said_to_be_so(token: str) -> None:
    with (
        Client(f"http://127.0.0.1:{find_free_port()}", token) as node,
        pytest.raises(NodeUnreachable, match="did not answer in 4 tries"),
    ):
        next(node.tables())


def test_what_awaits_a_second_person_is_looked_at_and_approved(
    live_server: LiveServer, lake: Lake, admin: User
) -> None:
    instant = lake.commit({"id": "1", "ts": 1, "city": "Oslo"})
    needs_approval("rollback")
    second = User.objects.create_user("bea")
    second.groups.add(*admin.groups.all())
    ada, bea = (
        Client(live_server.url, str(create_token(user, scope="administer")[1]))
        for user in (admin, second)
    )

    with ada, bea:
        asked_for = ada.roll_back("trips", ada.plan_rollback("trips", instant), reason="wrong file")
        [row] = bea.approvals()
        detail = bea.approval(row["operation"])
        with pytest.raises(ProblemError):
            ada.approve(detail, reason="myself")
        approved = bea.approve(detail, reason="I looked")
        with pytest.raises(ProblemError):
            bea.decline(row["operation"], reason="too late")

        assert (asked_for["row"]["state"], row["reason"]) == ("awaiting", "wrong file")
        assert detail["plan"]["instant"] == instant
        assert approved["row"]["decision"] == "approved"
        assert bea.approvals(state="decided")[0]["decided_by"] == "bea"


def test_a_file_is_uploaded_and_loaded(node: Client, synced: Table, tmp_path: Path) -> None:
    file = tmp_path / "trips å 2026.csv"
    file.write_bytes(b"id,ts,city\n" + b"1,5,Oslo\n" * 100_000)

    upload = node.upload(file)
    operation = node.write("trips", {"kind": "csv", "path": upload["path"]})

    assert (upload["name"], upload["bytes"]) == (file.name, file.stat().st_size)
    assert [row["operations"] for row in node.uploads()] == [[operation["row"]["id"]]]
    assert operation["parameters"]["upload_name"] == file.name
