"""Render every fragment with each optional value missing, in each state, and with hostile names;
the seed draws a third of these changes, `make soak` makes all.

No fragment and no value is listed here. Contexts are those that pages hand over. The types of the
values in them name what may be missing (`| None`, a null column), the words of a state (`Literal`),
and free text (`str`). A fragment that no address below renders fails the test.
"""

from __future__ import annotations

import copy
import html
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

import pytest
from django.contrib.auth.models import User
from django.db.models import Model
from django.template import Context
from django.template.base import Template
from django.template.loader import get_template
from django.test import Client
from django.test.signals import template_rendered
from django.utils import timezone
from pytest_django import Settings

from controlplane.demo.streams import DemoRun, start_streams
from controlplane.mirror.storage import storage_of
from controlplane.mirror.sync import sync_table
from controlplane.monitoring.models import Silence
from controlplane.operations.actions import (
    do_request_rollback,
    do_request_service,
    plan_rollback,
    plan_service,
)
from controlplane.operations.models import Operation, ScheduleRun
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from tests.support.joined import SHIP_COLUMN, commit, make
from tests.support.sampling import is_drawn
from tests.support.sinks import stuck_state
from tests.web.page_addresses import pages
from tests.web.test_page_roles import places, table_of  # noqa: F401 - a fixture
from tests.web.test_spark_stages import STAGE
from tests.web.test_stream_rounds import written
from tests.web.test_untrusted_text import Elements
from tests.web.test_write_page import sent
from web import additions
from workers.sink.state_file import put_state

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
FOLDERS = ("fragments", "components", "data", "demo")
HOSTILE = "a \"b\" 'c' /d/../e?f=1&g#h %2F <b onclick=x>i</b> \u202ej " + "k" * 300
FIRST_STEP = "fragments/first_step.html"
FIXED = {
    "CaseSeen.commits",
    "CaseSeen.conflicts",
    "CheckLine.action",  # Markup of ours.
    "DemoButton.icon",
    "DemoButton.name",
    "OperationDetail.lost",
    "Place.icon",
    "Place.page",
    "RecentAction.object",  # A link is made where it is a table's slug.
    "RuleRow.check",
    "SchemaCase.at_start",
    "SchemaCase.at_validation",
    "SchemaCase.committed",
    "SchemaCase.writer",
    "ServiceKind.name",
    "ShownStep.show",
    "SinkSummary.sink_id",
    "TableChangePlan.services",
}
"""Text with a form of its own, next to instants, slugs and addresses, which show theirs."""
OF_A_FORM = re.compile(r"\d{17}(,\d{17})*|[/?].*", re.DOTALL)
DEPTH_MAX = 5


def vary(value: object, templates: str, depth: int = DEPTH_MAX) -> Iterator[tuple[str, Any]]:
    """Copies of a value with one thing in it changed, each with what that is; only what the
    text of `templates` reads.
    """
    if not depth:
        return
    if is_dataclass(value) and not isinstance(value, type):
        yield from _vary_dataclass(value, templates, depth)
    elif isinstance(value, Model):
        for column in value._meta.concrete_fields:
            if column.null and f".{column.name}" in templates:
                name = f"{type(value).__name__} without {column.name}"
                yield name, _copy_with(value, column.attname, None)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            for name, varied in vary(inner, templates, depth - 1):
                yield f"{key}: {name}", {**value, key: varied}
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        for at in {type(inner): at for at, inner in reversed(list(enumerate(value)))}.values():
            for name, varied in vary(value[at], templates, depth - 1):
                yield name, type(value)([*value[:at], varied, *value[at + 1 :]])


def _vary_dataclass(value: Any, templates: str, depth: int) -> Iterator[tuple[str, Any]]:
    kind = type(value).__name__
    own = {
        name: hint
        for name, hint in _hints(cast(Hashable, type(value))).items()
        if f".{name}" in templates
    }
    states = [
        (f"{kind} {name}={word}", _copy_with(value, name, word))
        for name, hint in own.items()
        if get_origin(hint) is Literal
        for word in get_args(hint)
    ]
    yield from states
    for state, base in [(kind, value), *states]:
        for name, hint in own.items():
            if NoneType in get_args(hint):
                yield f"{state} without {name}", _copy_with(base, name, None)
    for name, hint in own.items():
        if is_free_text(kind, name, hint, getattr(value, name)):
            hostile = HOSTILE if hint is str else [HOSTILE]
            yield f"{kind} with hostile {name}", _copy_with(value, name, hostile)
    for name in _hints(cast(Hashable, type(value))):
        for inner_name, inner in vary(getattr(value, name), templates, depth - 1):
            yield inner_name, _copy_with(value, name, inner)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    try:
        hints = get_type_hints(kind)
    except NameError:  # A type that is imported for the type checker only.
        hints = {}
    return {field.name: hints.get(field.name) for field in fields(kind)}


def is_free_text(kind: str, name: str, hint: Any, now: object) -> bool:
    is_text = hint is str
    is_list = get_origin(hint) in (list, tuple, Sequence) and set(get_args(hint)) <= {str, ...}
    if (
        not (is_text or is_list)
        or f"{kind}.{name}" in FIXED
        or name.endswith(("slug", "url", "address", "instant", "with_newer"))
    ):
        return False
    some = now if is_text else next(iter(now or ()), "")  # type: ignore[call-overload]
    return OF_A_FORM.fullmatch(str(some)) is None


def _copy_with(value: Any, name: str, inner: object) -> Any:
    copied = copy.copy(value)
    object.__setattr__(copied, name, inner)
    return copied


@cache
def source(name: str) -> str:
    """A template with those that it includes."""
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    return text + "".join(source(part) for part in re.findall(r'include "([^"]+)"', text))


def find_problem(name: str, context: Mapping[str, Any], *, is_hostile: bool) -> str:
    try:
        page = get_template(name).template.render(Context(dict(context)))  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001 - whatever it is, the page would be a 500.
        return f"{type(error).__name__}: {error}"[:300]
    if not is_hostile:
        return ""
    elements = Elements()
    elements.feed(page)
    hrefs = [html.unescape(href) for href in re.findall(r'href="([^"]*)"', page)]
    broken = [href for href in hrefs if HOSTILE[:5] in href]
    handlers = [element for element in elements.strange if " on" in element]
    return "; ".join([*handlers, *broken])[:300]


@pytest.fixture
def addresses(
    places: dict[str, str],  # noqa: F811
    root: Path,
    admin: User,
) -> list[str]:
    """What fills the fragments that no line of the matrix of roles shows filled."""
    ads, trips = Table.objects.get(slug="ads"), Table.objects.get(slug="trips")
    start_streams(admin, DemoRun(rounds=2))
    joined = make(root)
    commit(joined, {"id": "a", "shop_ts": 1_700_000_000_000, "price": 1.0}, stream="shop")
    commit(joined, {"id": "a", "ship_ts": 1_700_000_000_000, SHIP_COLUMN: "x"}, stream="ship")
    sync_table(do_register_table(location=joined.location, slug="joined", by=admin))
    now = timezone.now()
    now_ms = int(now.timestamp() * 1000)
    put_state(storage_of(trips), replace(stuck_state(missing=2), updated_ms=now_ms + 3_600_000))
    sync_table(trips)
    schedule = trips.schedules.get()
    ScheduleRun.objects.create(schedule=schedule, turn="1", due_at=now, outcome="skipped")
    written(ads, state="running", ago=20, now=now)
    until = timezone.now() + timedelta(days=1)
    Silence.objects.create(table=trips, check_name="mirror", until=until, by="ada", reason="x")
    plan = plan_rollback(trips, places["instant"])
    rollback = do_request_rollback(trips, places["instant"], plan.plan_hash, "x", "trips", admin)
    chosen = {"predicate": "city = 'Oslo'"}
    deletion = plan_service(trips, "delete", chosen, None)
    delete = do_request_service(trips, "delete", chosen, deletion.plan_hash, "x", "trips", admin)
    running = Operation.objects.filter(table=ads).latest("pk")
    running.stages = {"at": now.isoformat(), "stages": [STAGE]}
    running.save()
    schema_lost = Conflict.objects.get(table=ads, kind="schema").loser_instant
    tabs = ("summary", "partitions", "files", "json", "links")
    return [
        "/t/ad-requests/live",
        "/t/ads/live?wall",
        "/t/ads/writers",
        "/t/joined/streams",
        "/t/joined/live",
        f"/t/ads/conflicts/{schema_lost}",
        f"/t/ads/operations/{running.pk}",
        f"/t/trips/operations/{rollback.pk}",
        f"/t/trips/operations/{delete.pk}",
        *(f"/t/trips/timeline?sel={places['instant']}&tab={tab}" for tab in tabs),
    ]


@pytest.mark.sampled(every=1)
def test_every_fragment_renders_without_what_is_optional_and_with_hostile_names(
    places: dict[str, str],  # noqa: F811
    addresses: list[str],
    as_admin: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
) -> None:
    settings.SLUICE_SOURCE_ROOTS = (str(tmp_path),)
    (tmp_path / "new.csv").write_text("id,city,ts,note\n1,Oslo,7,hi\n")
    contexts_by_name: dict[str, list[dict[Any, Any]]] = {}

    def note(sender: object, template: Template, context: Context, **_: object) -> None:
        if str(template.name).split("/")[0] in FOLDERS:
            contexts_by_name.setdefault(str(template.name), []).append(dict(context.flatten()))

    template_rendered.connect(note)
    try:
        for line in table_of("admin"):
            if line.answer == "200" and line.name != "readyz":
                as_admin.generic(line.method, line.address(places, pages()))
        for address in addresses:
            assert as_admin.get(address).status_code == 200, address
        assert sent(as_admin, "csv", deed="preview", path=f"{tmp_path}/new.csv")[0] == 200
        Table.objects.all().delete()
        monkeypatch.setattr(additions, "_first_steps", [FIRST_STEP])
        assert as_admin.get("/").status_code == 200
    finally:
        template_rendered.disconnect(note)
    problems, seen = {}, set()
    for name, contexts in contexts_by_name.items():
        for context in contexts:
            for what, varied in vary(context, source(name)):
                if (name, what) not in seen and is_drawn(f"{name} {what}", every=6):
                    seen.add((name, what))
                    problems[name, what] = find_problem(name, varied, is_hostile="hostile" in what)

    fragments = {f"fragments/{file.name}" for file in (TEMPLATES / "fragments").iterdir()}
    assert {what: problem for what, problem in problems.items() if problem} == {}
    assert fragments - set(contexts_by_name) == set(), "no address shows these"
