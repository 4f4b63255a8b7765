"""Threat T1: no path, however it is written, leads out of the configured roots. What Python opens
is seen by an audit hook; what Arrow opens would stand in the answer.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from controlplane.errors import InvalidRequest
from controlplane.mirror.sync import sync_table
from controlplane.operations.source_places import checked_source
from controlplane.tables.actions import do_register_table
from controlplane.tables.locations import checked_location
from controlplane.tables.models import Table
from workers import create_table

SEED = os.environ["SLUICE_TEST_SEED"]
SECRET = "hushhush"
"""A column, and a value, of the files outside."""
TRIED_EACH = 12
"""Of the corpus, at every address; the functions behind them get all of it."""
KEY = "11111111-1111-4111-8111-111111111111"
_watched: list[tuple[str, list[str]]] = []
"""While something is watched: the folder, and what was opened below it."""


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _watched and event in ("open", "os.listdir", "os.scandir", "os.mkdir", "os.rename"):
        folder, opened = _watched[-1]
        path = arguments[0] if arguments else ""
        if isinstance(path, str | bytes | os.PathLike):
            resolved = os.path.realpath(os.fsdecode(path))
            if (resolved + "/").startswith(folder + "/"):
                opened.append(f"{event} {resolved}")


sys.addaudithook(_hear)


@contextmanager
def watching(folder: Path) -> Iterator[list[str]]:
    opened: list[str] = []
    _watched.append((str(folder), opened))
    try:
        yield opened
    finally:
        _watched.pop()


@pytest.fixture
def outside(tmp_path: Path, root: Path) -> Path:
    """Beside the root: a table and files, to which a link in the root leads."""
    outside = tmp_path / "outside"
    schema = pa.schema([pa.field(SECRET, pa.string())])
    create_table(outside / "trips", name="trips", schema=schema, record_key=[SECRET])
    (outside / "rows.csv").write_text(f"{SECRET}\n{SECRET}\n")
    (root / "link").symlink_to(outside)
    (root / "inner").mkdir()
    return outside


@pytest.fixture
def drop(tmp_path: Path, outside: Path, settings: Settings) -> Path:
    """The source root, with the same link in it."""
    drop = tmp_path / "drop"
    (drop / "inner").mkdir(parents=True)
    (drop / "inner" / "rows.csv").write_text("id,city,ts\n1,Oslo,9\n")
    (drop / "link").symlink_to(outside)
    settings.SLUICE_SOURCE_ROOTS = (str(drop),)
    return drop


def corpus(root: Path, outside: Path) -> list[str]:
    """Thousands of ways to write a place outside, some of which name nothing anywhere."""
    dots = (
        "..", "%2e%2e", "%252e%252e", "..;", "..%00", "\u2024\u2024", "\uff0e\uff0e", "\u2025",
        ".\u200b.", "%c0%ae%c0%ae", "...", ".. ", "..\t", "..\x00",
    )  # fmt: skip
    slashes = ("/", "\\", "%2f", "%252f", "//", "/./", "\u2215", "\uff0f")
    targets = ("outside/trips", "outside/rows.csv", "outside", "../etc/passwd")
    starts = (f"{root}", f"{root}/inner", f"{root}//", "", f"file://{root}", f" {root}")
    climbing = [
        f"{start}{slash}{slash.join([dot] * depth)}{slash}{target}"
        for start, slash, dot, depth, target in product(starts, slashes, dots, (1, 2), targets)
    ]
    places = [
        str(outside / "trips"),
        str(outside / "rows.csv"),
        str(outside),
        "/etc",
        "/etc/passwd",
    ]
    plain = [
        *places,
        *(quote(place, safe="") for place in places),
        *(quote(quote(place, safe=""), safe="") for place in places),
        *(f"{scheme}{place}" for scheme in ("file://", "file:", "FILE:///") for place in places),
        *(f"{root}/link{end}" for end in ("", "/", "/trips", "/rows.csv", "//trips", "/./trips")),
        *(f"{root}{end}" for end in ("-evil/t", "/../outside", "/*", "/'x'", "/$HOME", "/`id`")),
        *("~", "~root/t", "outside/trips", "./outside", "/", "", ".", "..", "\x00", "C:\\t"),
        *(f"s3://{rest}" for rest in ("lake/t", "lake/../t", "key:pass@lake/t", "", "lake")),
        f"{root}\n/etc/passwd", f"/proc/self/root{outside}", f"/proc/self/cwd{outside}",
    ]  # fmt: skip
    return [*plain, *climbing]


def test_no_spelling_of_a_place_leads_a_location_or_a_source_out_of_the_roots(
    root: Path, drop: Path, outside: Path, admin: User
) -> None:
    checks: list[tuple[Path, Callable[[str], str]]] = [
        (root, checked_location),
        (drop, lambda path: checked_source(path, admin)),
    ]
    spellings = {folder: corpus(folder, outside) for folder, _ in checks}
    assert all(len(each) > 5000 for each in spellings.values())

    refused, wrong = 0, []
    with watching(outside) as opened:
        for folder, check in checks:
            for spelling in spellings[folder]:
                try:
                    resolved = check(spelling)
                except InvalidRequest:
                    refused += 1
                    continue
                if not os.path.realpath(resolved).startswith(f"{folder}/"):
                    wrong.append((folder, spelling, resolved))

    assert wrong == []
    assert opened == []
    assert refused > len(spellings[root])
    assert checked_location(f"{root}/inner") == f"{root}/inner"
    assert checked_source(f"{drop}/inner/rows.csv", admin) == f"{drop}/inner/rows.csv"


def api(method: str, address: str, key: str, **fixed: Any) -> Callable[[Client, str], Any]:
    def send(client: Client, path: str) -> Any:
        body = json.dumps({**fixed, key: path})
        return client.generic(method, address, body, "application/json")

    return send


def page(method: str, address: str, key: str, **fixed: str) -> Callable[[Client, str], Any]:
    def send(client: Client, path: str) -> Any:
        words = {**fixed, key: path}
        return client.get(address, words) if method == "GET" else client.post(address, words)

    return send


def planned(service: str) -> Callable[[Client, str], Any]:
    def send(client: Client, path: str) -> Any:
        address = f"/api/v1/tables/trips/services/{service}/plan/"
        body = json.dumps({"parameters": {"path": path}})
        return client.post(address, body, "application/json")

    return send


def written(kind: str) -> Callable[[Client, str], Any]:
    def send(client: Client, path: str) -> Any:
        body = json.dumps({"source": {"kind": kind, "path": path}})
        return client.post("/api/v1/tables/trips/operations/", body, "application/json")

    return send


COLUMNS = [{"name": "id", "type": "string"}]
TAKERS: dict[str, Callable[[Client, str], Any]] = {
    "register": api("POST", "/api/v1/tables/", "location", slug="new"),
    "relocate": api("PATCH", "/api/v1/tables/trips/", "location", reason="a test"),
    "create": api(
        "POST", "/api/v1/new-tables/", "location", slug="new", columns=COLUMNS, record_key=["id"]
    ),
    "suggest": api("POST", "/api/v1/new-tables/suggestion/", "path"),
    "delete by file": planned("delete"),
    "overwrite by file": planned("insert_overwrite"),
    "write csv": written("csv"),
    "write parquet": written("parquet"),
    "page register": page("POST", "/tables/register", "location", slug="new", namespace="default"),
    "page suggest": page("GET", "/tables/create", "path"),
    "page create": page(
        "POST", "/tables/create", "location", slug="new", namespace="default",
        columns="id string", record_key="id", table_type="COPY_ON_WRITE", idempotency_key=KEY,
    ),
    "page relocate": page(
        "POST", "/t/trips/settings", "location", name="trips", slug="trips", namespace="default",
        reason="a test", idempotency_key=KEY,
    ),
    "page delete by file": page("GET", "/t/trips/services/run/delete", "path"),
}  # fmt: skip


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("taker", TAKERS)
def test_no_address_that_takes_a_path_reads_or_writes_outside(
    taker: str, as_admin: Client, trips: Table, root: Path, drop: Path, outside: Path
) -> None:
    everything = [*corpus(root, outside), *corpus(drop, outside)]
    drawn = random.Random(f"{SEED} {taker}").sample(everything, TRIED_EACH)
    plain = [str(outside / "trips"), str(outside / "rows.csv"), f"{root}/link/rows.csv"]
    plain.append(f"{drop}/link/rows.csv")
    before = sorted(path.name for path in outside.rglob("*"))

    wrong = []
    with watching(outside) as opened:
        for path in [*plain, *drawn]:
            answer = TAKERS[taker](as_admin, path)
            hidden = answer.content.decode().replace(path, "")
            is_taken = path in plain and answer.status_code < 400
            if is_taken or answer.status_code >= 500 or SECRET in hidden or opened:
                wrong.append((path, answer.status_code, opened[:3]))

    assert wrong == []
    assert sorted(path.name for path in outside.rglob("*")) == before
    outsiders = [place for place in Table.objects.values_list("location", flat=True)
                 if not place.startswith(f"{root}/")]  # fmt: skip
    assert outsiders == []


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("taker", TAKERS)
def test_every_address_takes_a_path_inside(
    taker: str, as_admin: Client, trips: Table, root: Path, drop: Path
) -> None:
    is_place = any(word in taker for word in ("register", "relocate", "create"))

    answer = TAKERS[taker](as_admin, f"{root}/fresh" if is_place else f"{drop}/inner/rows.csv")

    text = answer.content.decode()
    if "relocate" in taker:
        assert "o table found at the new location" in text
    else:
        assert answer.status_code in (200, 201, 202, 302), text


def test_the_watch_sees_what_is_opened_outside(outside: Path, root: Path) -> None:
    with watching(outside) as opened:
        (root / "link" / "rows.csv").read_text()

    assert opened == [f"open {outside}/rows.csv"]


def test_a_table_whose_folder_became_a_link_is_not_followed(
    trips: Table, admin: User, root: Path, outside: Path
) -> None:
    before = set(trips.instants.values_list("requested_at", flat=True))
    shutil.move(root / "trips", root / "moved")
    (root / "trips").symlink_to(outside / "trips")

    with watching(outside) as opened:
        sync_table(trips)

    trips.refresh_from_db()
    assert opened == []
    assert "outside" in trips.sync_error
    assert set(trips.instants.values_list("requested_at", flat=True)) == before


@pytest.mark.parametrize(
    "inside",
    ["file-groups/{}/", "instants/{}/", "markers/{}/", "conflicts/{}/", "services/{}/plan/"],
)
def test_no_id_in_an_address_is_a_path(
    inside: str, as_admin: Client, trips: Table, root: Path, outside: Path
) -> None:
    ids = ("..", "%2e%2e", "..%2f..%2foutside", "%252e%252e%252f", "a%00b", "\u2024\u2024", "*")

    with watching(outside) as opened:
        answers = [as_admin.get(f"/api/v1/tables/trips/{inside.format(each)}") for each in ids]

    assert {answer.status_code for answer in answers} <= {400, 404, 405}
    assert opened == []


def test_a_registered_place_is_the_resolved_one(root: Path, admin: User) -> None:
    (root / "real").mkdir()
    (root / "alias").symlink_to(root / "real")

    table = do_register_table(location=f"{root}/alias", slug="alias", by=admin)

    assert table.location == f"{root}/real"
