"""The guided demo: storage ticks a step, never the button alone; the strip folds and stays so."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlplane.audit.actions import do_record
from controlplane.audit.models import AuditEvent
from controlplane.demo import prices, sink
from controlplane.demo.actions import KILLED_WRITER, kill_in_the_middle
from controlplane.demo.participants import _descends, do_kill_demo_participant
from controlplane.demo.reset import delete_all
from controlplane.demo.restart import do_restart_demo
from controlplane.demo.story import KILLED, do_begin_story, story
from controlplane.demo.streams import DemoRun, start_streams
from controlplane.errors import NotAllowedNow
from controlplane.mirror.models import JoinPoint, UndoneRecord
from controlplane.mirror.sink_models import SinkRecord
from controlplane.mirror.sync import sync_table
from controlplane.operations.actions import do_reconcile
from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from web.demo.story import STEPS
from workers import open_table
from workers.clock import SystemClock, format_instant
from workers.demo.ad_requests import STREAMS
from workers.tasks.rollback import rollback


@pytest.fixture
def ads(root: Path, admin: User) -> Table:
    """The demo's table of streams; its writers were asked for, and nobody has taken them up."""
    return start_streams(admin, DemoRun(rounds=2)).table


def ticks(user: User) -> dict[str, bool]:
    seen = story(user)
    assert seen is not None
    return {step.name: step.is_done for step in seen.steps}


def lose(table: Table, *, kind: str, detected: str) -> str:
    now = timezone.now()
    lost = Conflict.objects.create(
        table=table,
        loser_instant=format_instant(int(now.timestamp() * 1000)),
        kind=kind,
        detected=detected,
        decided_at=now,
    )
    return lost.loser_instant


def press(client: Client, name: str, back: str = "") -> str:
    return client.post(f"/demo/steps/{name}", {"back": back}).headers.get("Location", "")


def test_pressing_ticks_nothing_and_starts_ordinary_writes(
    ads: Table, admin: User, as_admin: Client
) -> None:
    for name in ("meet", "schema", "late"):
        assert press(as_admin, name).startswith("/t/ad-requests/"), name

    assert not any(ticks(admin).values())
    kinds = [one.parameters["job"]["source"]["kind"] for one in Operation.objects.all()]
    assert [kinds.count(f"demo_{name}") for name in ("backfill", "evolve", "late")] == [2, 2, 2]
    early = Operation.objects.filter(parameters__job__source__kind="demo_backfill").first()
    assert early is not None
    assert "early.conflict.detection.enable" in str(early.parameters)


def test_conflicts_tick_their_own_step_and_lead_to_themselves(
    ads: Table, admin: User, as_admin: Client
) -> None:
    lose(ads, kind="schema", detected="commit")
    assert (ticks(admin)["meet"], ticks(admin)["schema"]) == (False, True)

    early = lose(ads, kind="write", detected="early")

    assert (ticks(admin)["meet"], ticks(admin)["schema"]) == (True, True)
    assert f'href="/t/ad-requests/conflicts/{early}"' in as_admin.get("/").content.decode()


def test_killed_writer_is_done_when_its_own_instant_was_rolled_back(
    ads: Table, admin: User, as_admin: Client
) -> None:
    other, killed, by = (format_instant(1_790_000_000_000 + at) for at in range(3))

    def undo(instant: str, undone_by: str) -> bool:
        UndoneRecord.objects.update_or_create(
            table=ads,
            requested_at=instant,
            defaults={"ended_at": by, "undone_by": undone_by, "action": "deltacommit"},
        )
        return ticks(admin)["kill"]

    do_record(
        who="ada", what=KILLED_WRITER, subject=ads.slug, result="succeeded",
        details={"operation": "", "instant": killed},
    )  # fmt: skip
    assert not undo(other, by)
    assert not undo(killed, "")

    assert undo(killed, by)

    assert f'href="/t/ad-requests/timeline?sel={killed}"' in as_admin.get("/").content.decode()


def test_kill_starts_streams_that_have_ended_and_spares_those_that_write_nothing(
    ads: Table, admin: User, as_admin: Client
) -> None:
    Operation.objects.update(state="succeeded")

    assert press(as_admin, "kill") == "/t/ad-requests/live"

    assert Operation.objects.filter(state="queued").count() == len(STREAMS)
    request = AuditEvent.objects.get(what=KILLED_WRITER)
    assert (request.who, request.result) == (admin.get_username(), "requested")
    assert kill_in_the_middle(ads, wait_s=0, spares_idle=True) is None


def test_writer_that_was_killed_between_two_rounds_ticks_nothing(ads: Table, admin: User) -> None:
    UndoneRecord.objects.create(
        table=ads,
        requested_at=format_instant(0),
        ended_at=format_instant(1),
        undone_by=format_instant(1),
    )
    do_record(
        who="ada", what=KILLED_WRITER, subject=ads.slug, result="succeeded",
        details={"operation": "", "instant": ""},
    )  # fmt: skip

    assert not ticks(admin)["kill"]


def test_a_story_that_begins_anew_has_no_ticks(ads: Table, admin: User) -> None:
    lose(ads, kind="schema", detected="commit")
    assert ticks(admin)["schema"]

    do_begin_story(admin)

    assert not any(ticks(admin).values())


def test_killed_participant_is_done_when_a_transaction_that_began_later_committed(
    ads: Table, admin: User
) -> None:
    """Whether anybody is left to say that the open one was given up, or not: the killed process may
    be the coordinator's.
    """
    orders = Table.objects.create(slug=sink.SLUG, name="o", location="/o", registered_by=admin)
    shown = SinkRecord.objects.create(table=orders, sink_id=sink.SINK_ID)
    do_record(who="ada", what=KILLED, subject=sink.SLUG, result="succeeded")
    killed_ms = int(timezone.now().timestamp() * 1000)

    def end(*transactions: tuple[int, str]) -> bool:
        shown.transactions = [
            {"outcome": outcome, "started_ms": killed_ms + after_ms, "ended_ms": killed_ms + 20_000}
            for after_ms, outcome in transactions
        ]
        shown.save()
        return ticks(admin)["participant"]

    assert not end()
    assert not end((-9_000, "committed"))
    assert not end((-9_000, "aborted"), (9_000, "aborted"))
    assert end((-9_000, "aborted"), (9_000, "committed"))
    assert end((9_000, "committed"))


def test_no_participant_is_killed_where_no_sink_runs(ads: Table, admin: User) -> None:
    orders = Table.objects.create(slug=sink.SLUG, name="o", location="/o", registered_by=admin)

    with pytest.raises(NotAllowedNow):
        do_kill_demo_participant(orders, admin)

    assert not AuditEvent.objects.filter(what=KILLED).exists()
    assert not _descends(1, 2)


def test_late_clicks_are_done_when_the_share_fell_and_rose(
    ads: Table, admin: User, as_admin: Client
) -> None:
    def look(share: float) -> None:
        JoinPoint.objects.create(
            table=ads, at=timezone.now(), keys=9, complete_pct=1, by_group={"click": share}
        )

    look(40.0)
    press(as_admin, "late")
    late = Operation.objects.filter(parameters__job__source__kind="demo_late")
    holds_s = {one.parameters["stream"]: one.parameters["job"]["source"]["hold_s"] for one in late}
    assert holds_s["click"] > 30 > holds_s["impression"] == 0
    late.update(state="succeeded")
    assert not ticks(admin)["late"]
    look(21.0)
    assert not ticks(admin)["late"]
    look(38.0)

    assert ticks(admin)["late"]


@pytest.mark.usefixtures("ads")
def test_wrong_load_is_planned_undone_proved_and_ticked(
    admin: User, as_admin: Client, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_TABLE_ROOTS", str(root))
    plan = press(as_admin, "rollback")
    table = open_table(prices.table_location())
    assert max(row["price"] for row in table.read().to_pylist()) > 1_000

    html = as_admin.get(plan).content.decode()
    form = dict(re.findall(r'name="(plan_hash|idempotency_key)" value="([^"]+)"', html))
    there = as_admin.post(plan, {"typed_name": prices.NAME, "reason": "cents", **form})
    assert there.status_code == 302
    assert not ticks(admin)["rollback"]
    operation = Operation.objects.get(kind="rollback")
    rollback.apply(args=[operation.parameters["job"] | {"report_url": None}]).get()
    sync_table(operation.table)
    Operation.objects.exclude(pk=operation.pk).update(state="succeeded")
    for minutes in (5, 10):
        do_reconcile(now=timezone.now() + timedelta(minutes=minutes))

    assert ticks(admin)["rollback"]
    assert max(row["price"] for row in table.read().to_pylist()) < 1_000
    assert AuditEvent.objects.filter(object=prices.SLUG, reason="cents").exists()


def test_strip_is_one_line_that_unfolds_and_can_be_hidden(ads: Table, as_viewer: Client) -> None:
    def read_page(address: str) -> str:
        return as_viewer.get(address).content.decode()

    def choose(shape: str, back: str = "") -> str:
        answer = as_viewer.post(f"/demo/story/{shape}", {"back": back})
        return answer.headers.get("Location", "")

    one_line = read_page("/t/ad-requests/live")
    assert 'aria-label="Guided demo"' in one_line
    assert one_line.count('requires the admin role"') == 1, "its current step alone"
    assert 'class="demo-steps"' not in one_line
    assert read_page("/").count('requires the admin role"') >= len(STEPS)
    assert press(as_viewer, "meet") == ""

    assert choose("full", "/t/ad-requests/schema") == "/t/ad-requests/schema"
    assert 'class="demo-steps"' in read_page("/t/ad-requests/live")
    choose("line")
    assert 'class="demo-steps"' not in read_page("/t/ad-requests/live")
    assert 'class="demo-steps"' in read_page("/")
    assert choose("hidden", "//elsewhere.example/x") == "/t/ad-requests/live"
    assert 'aria-label="Guided demo"' not in read_page("/t/ad-requests/live") + read_page("/")
    assert as_viewer.post("/demo/story/wide").status_code == 404


def test_fresh_strip_keeps_the_shape_of_its_page(ads: Table, as_viewer: Client) -> None:
    def fetch_strip(back: str) -> str:
        return as_viewer.get("/demo/story", {"back": back}).content.decode()

    assert 'class="demo-steps"' not in fetch_strip("/t/ad-requests/live?wall")
    assert 'class="demo-steps"' in fetch_strip("/")


def test_other_tables_have_no_strip(trips: Table, as_admin: Client) -> None:
    assert b"demo-strip" not in as_admin.get("/t/trips/live").content
    assert as_admin.get("/demo/story").status_code == 404


def test_reset_says_what_goes_and_takes_only_that(
    ads: Table, trips: Table, admin: User, as_admin: Client
) -> None:
    prices.do_load_wrong_prices(admin)
    said = as_admin.get("/demo/reset").content.decode()
    assert "price_list" in said
    Operation.objects.update(state="succeeded")

    do_restart_demo(admin, deletes=True, reason="again")
    delete_all(admin, SystemClock())

    assert list(Table.objects.values_list("slug", flat=True)) == ["trips"]
    assert not Path(prices.table_location()).exists()
    assert AuditEvent.objects.filter(what="demo.reset", reason="again").exists()
