"""RFC-82's eight cases on the Schema page: drawn as the document says, counted as commits and
conflicts say.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.mirror.models import InstantRecord, SchemaRecord
from controlplane.mirror.queries.schema_cases import cases_seen
from controlplane.tables.models import Table
from controlplane.writers.models import Conflict
from tests.support.markup import compact
from tests.web.conftest import instant
from web.schema_cases import CASES, SchemaCase
from workers.schema.conflict import resolve
from workers.schema.table_schema import TableSchema
from workers.schema.verdict import SchemaConflict

_NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
QUERIES_MAX = 12


def schema_named(name: str) -> TableSchema | None:
    """S1 has one column, S2 one more, S3 another one more; no name is no schema."""
    if not name:
        return None
    more = {"S1": [], "S2": [("b", ["null", "int"])], "S3": [("c", ["null", "string"])]}
    fields = [{"name": column, "type": kind} for column, kind in [("a", "int"), *more[name]]]
    return TableSchema.from_avro({"type": "record", "name": "r", "fields": fields})


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.number))
def test_each_drawing_says_what_the_engine_decides(case: SchemaCase) -> None:
    verdict = resolve(
        schema_named(case.at_start),
        schema_named(case.at_validation),
        schema_named(case.writer),
        same_instant=not case.has_rival,
    )

    assert verdict.scenario == case.number
    assert isinstance(verdict, SchemaConflict) == case.is_refused
    if not isinstance(verdict, SchemaConflict):
        assert verdict.schema == schema_named(case.committed)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.number))
def test_table_lane_reaches_from_edge_to_edge_without_a_gap(case: SchemaCase) -> None:
    lane = case.table

    assert lane[0].schema == case.at_start
    assert lane[-1].schema == (case.committed or case.at_validation)
    ends = [stretch.x + stretch.width for stretch in lane]
    assert [stretch.x for stretch in lane[1:]] == ends[:-1]
    assert all(stretch.width > 0 for stretch in (*lane, case.write))


@pytest.fixture
def evolved(admin: User) -> Table:
    """Three writes that met a case, one without a verdict, and a conflict."""
    table = Table.objects.create(slug="logs", name="logs", location="/lake/logs", synced_at=_NOW)
    verdicts = [(50, "old", {"scenario": 5}), (40, "old", {"scenario": 6}), (30, "new", {}),
                (20, "new", {"scenario": 6}), (10, "new", {"scenario": 4})]  # fmt: skip
    for seconds, writer, verdict in verdicts:
        at = instant(_NOW, seconds=seconds)
        InstantRecord.objects.create(
            table=table, requested_at=at, completed_at=at, action="commit", state="completed",
            writer_name=writer, metadata={"schema_verdict": verdict} if verdict else {},
        )  # fmt: skip
    Conflict.objects.create(
        table=table, loser_instant=instant(_NOW, seconds=15), kind="schema", decided_at=_NOW,
        schemas={"scenario": 8},
    )  # fmt: skip
    avro = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    SchemaRecord.objects.create(
        table=table, instant=instant(_NOW, seconds=50), completed_at=instant(_NOW, seconds=50),
        avro=avro, fingerprint="f", columns=1,
    )  # fmt: skip
    return table


def test_commits_and_conflicts_are_counted_by_their_case(evolved: Table) -> None:
    seen = cases_seen(evolved).by_number

    counts = {number: (case.committed, case.refused) for number, case in seen.items()}
    assert counts == {
        1: (0, 0), 2: (0, 0), 3: (0, 0), 4: (1, 0), 5: (1, 0), 6: (2, 0), 7: (0, 0), 8: (0, 1),
    }  # fmt: skip
    assert seen[6].commits == [instant(_NOW, seconds=20), instant(_NOW, seconds=40)]


def test_writer_whose_newest_write_is_not_case_six_has_caught_up(evolved: Table) -> None:
    older = cases_seen(evolved).older

    assert [(one.writer, one.instant) for one in older] == [("old", instant(_NOW, seconds=40))]


def test_page_draws_the_cases_and_leads_to_what_met_them(evolved: Table, as_viewer: Client) -> None:
    with CaptureQueriesContext(connection) as queries:
        html = compact(as_viewer.get("/t/logs/schema").content.decode())

    assert len(queries) <= QUERIES_MAX, [query["sql"][:90] for query in queries]
    assert all(case.label in html for case in CASES)
    assert f"/t/logs/conflicts/{instant(_NOW, seconds=15)}" in html
    assert "<strong>1 writer</strong> used an older schema" in html


def test_case_that_is_none_is_passed_over(evolved: Table, as_viewer: Client) -> None:
    InstantRecord.objects.update(metadata={"schema_verdict": {"scenario": 99}})
    Conflict.objects.update(schemas={"scenario": "x"})

    seen = cases_seen(evolved).by_number

    assert all(one.committed == one.refused == 0 for one in seen.values())
    assert as_viewer.get("/t/logs/schema").status_code == 200
