"""The wizard on a table that exists: what is refused, what is asked for, and once."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from django.test import Client
from django.utils import timezone

from controlplane.mirror.sync import sync_table
from controlplane.mirror.timeline_rows import InstantRow
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.support.markup import compact
from tests.web.conftest import TRIPS
from web.pages.rollback import choose
from workers import open_table


@pytest.fixture
def newest(trips: Table) -> str:
    return str(trips.instants.latest("requested_at").requested_at)


def plan_of(client: Client, instant: str) -> dict[str, str]:
    """The hidden fields of the plan's form."""
    html = client.get(f"/t/trips/rollback/{instant}").content.decode()
    return dict(re.findall(r'name="(plan_hash|idempotency_key)" value="([^"]+)"', html))


def confirm(client: Client, instant: str, **words: str) -> tuple[int, str]:
    form = {"typed_name": "trips", "reason": "wrong day", **plan_of(client, instant), **words}
    answer = client.post(f"/t/trips/rollback/{instant}", form)
    return answer.status_code, answer.get("Location", "") or answer.content.decode()


def test_plan_names_every_file_and_changes_nothing(
    newest: str, as_admin: Client, trips: Table
) -> None:
    before = [one.requested_at for one in open_table(trips.location).timeline()]

    html = as_admin.get(f"/t/trips/rollback/{newest}").content.decode()

    assert len(re.findall(rf"<code>[^<]*{newest}\.parquet</code>", html)) > 0
    assert [one.requested_at for one in open_table(trips.location).timeline()] == before


def test_confirmed_plan_becomes_an_operation_with_its_hash_and_reason(
    newest: str, as_admin: Client
) -> None:
    form = plan_of(as_admin, newest)

    status, there = confirm(as_admin, newest, **form)

    operation = Operation.objects.get()
    assert (status, there) == (302, f"/t/trips/operations/{operation.pk}")
    assert (operation.plan_hash, operation.reason) == (form["plan_hash"], "wrong day")
    assert b"Waiting" in as_admin.get(there).content or b"waiting" in as_admin.get(there).content


def test_second_click_asks_for_nothing_more(newest: str, as_admin: Client) -> None:
    form = plan_of(as_admin, newest)

    first, again = confirm(as_admin, newest, **form), confirm(as_admin, newest, **form)

    assert first == again
    assert Operation.objects.count() == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"typed_name": "trip"}, "not the table&#x27;s name"),
        ({"typed_name": ""}, "Enter the table name"),
        ({"reason": "  "}, "Enter a reason"),
        ({"reason": "x" * 501}, "at most 500"),
    ],
)
def test_wrong_name_or_no_reason_is_refused_and_what_was_typed_stays(
    words: dict[str, str], problem: str, newest: str, as_admin: Client
) -> None:
    status, html = confirm(as_admin, newest, **words)

    assert status == 422
    assert problem in html
    assert "wrong day" in html or "reason" in words
    assert not Operation.objects.exists()


def test_table_that_moved_on_voids_the_plan_and_shows_the_new_one(
    newest: str, as_admin: Client, trips: Table
) -> None:
    old = plan_of(as_admin, newest)
    open_table(trips.location).write(
        pa.Table.from_pylist([{"id": 1, "city": "X", "ts": 9}], schema=TRIPS)
    )

    status, html = confirm(as_admin, newest, **old)

    assert status == 409
    assert "The table changed after the plan was computed" in html
    assert 'value="trips"' in html
    assert "Blocked:" in html
    assert old["plan_hash"] not in html
    assert not Operation.objects.exists()


def test_older_instant_is_blocked_with_the_order_to_follow(
    newest: str, as_admin: Client, trips: Table
) -> None:
    oldest = trips.instants.earliest("requested_at").requested_at

    html = as_admin.get(f"/t/trips/rollback/{oldest}").content.decode()

    assert "Blocked:" in html
    assert newest in html
    assert re.search(r'class="danger" type="submit" disabled', html)


def test_viewer_sees_the_plan_and_which_role_it_takes(newest: str, as_viewer: Client) -> None:
    html = as_viewer.get(f"/t/trips/rollback/{newest}").content.decode()

    assert "requires the <strong>admin</strong> role" in html
    assert re.search(r'class="danger" type="submit" disabled', html)
    assert as_viewer.post(f"/t/trips/rollback/{newest}", {}).status_code == 403
    assert not Operation.objects.exists()


def test_forged_form_of_another_site_is_refused(newest: str, trips: Table, admin: object) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin)  # type: ignore[arg-type]

    assert client.post(f"/t/trips/rollback/{newest}", {"reason": "x"}).status_code == 403


def test_storage_that_is_gone_is_told_and_not_a_fault(
    newest: str, as_admin: Client, trips: Table
) -> None:
    Table.objects.update(location=trips.location + "-moved")

    answer = as_admin.get(f"/t/trips/rollback/{newest}")

    assert answer.status_code in (400, 409, 503)
    assert b"No plan available" in answer.content


def test_proof_after_the_rollback_comes_from_storage_and_mirror(
    newest: str, as_admin: Client, trips: Table
) -> None:
    _, there = confirm(as_admin, newest)
    Operation.objects.update(state="succeeded", finished_at=timezone.now())
    before = as_admin.get(f"{there}/state").content.decode()

    open_table(trips.location).rollback(newest, dry_run=False)
    sync_table(trips)
    after = as_admin.get(f"{there}/state").content.decode()

    # A worker that only says it is done proves nothing.
    assert compact(before).count("</svg> verified<") == 0
    assert "are left, such as" in before
    assert compact(after).count("</svg> verified<") == 3
    assert "undone by rollback" in after


def test_ticked_instants_are_one_plan_in_their_order(as_admin: Client, trips: Table) -> None:
    older, newest = [one.requested_at for one in trips.instants.order_by("requested_at")][-2:]
    address = "/t/trips/services/run/rollback_several"

    choices = as_admin.get("/t/trips/rollback").content.decode()
    html = as_admin.get(address, {"instants": [older, newest]}).content.decode()
    hidden = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', html))
    words = {"typed_name": "trips", "reason": "wrong days"}
    answer = as_admin.post(address, {**hidden, **words})

    assert f'{address}?instants={newest},{older}"' in choices
    assert html.index("1. <a") < html.index("2. <a")
    operation = Operation.objects.get()
    assert answer["Location"] == f"/t/trips/operations/{operation.pk}"
    undone = [one["what"] for one in operation.plan["items"] if one["effect"] == "undo"]
    assert undone == [newest, older]
    assert operation.plan_hash == hidden["plan_hash"]
    assert ">several</td>" in as_admin.get("/t/trips/rollback").content.decode()


def _row(at: int, completed: int | None) -> InstantRow:
    return InstantRow(
        requested_at=str(at), requested_ms=at, action="commit", state="completed",
        completed_at=str(completed) if completed else None, completed_ms=completed, writer="",
        stream="", operation_type="", rows=None, files=None, bytes=None,
    )  # fmt: skip


def test_choices_follow_completion_not_request() -> None:
    rows = [_row(5, None), _row(4, None), _row(3, 6), _row(2, 7), _row(1, 2)]

    verdicts = [choice.verdict for choice in choose(rows, alive=frozenset({"5"}))]

    assert verdicts == ["alive", "ready", "later", "ready", "later"]
