"""The files below `deploy/`: expressions are right and ask only for what a scrape has; the unit
names a command that there is.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from controlplane.instruments import count_delivery, count_ended, count_round
from controlplane.monitoring.exposition import MetricRow, format_markdown, list_metrics
from controlplane.node.management.commands.up import Command as Up
from tests.controlplane.monitoring.conftest import BASE, Scrape, busy_table, marker_server

REPOSITORY = Path(__file__).resolve().parents[3]
DASHBOARD = REPOSITORY / "deploy" / "grafana" / "sluice.json"
ALERTS = REPOSITORY / "deploy" / "prometheus" / "alerts.yml"
NAME = re.compile(r"\bsluice_[a-z_]+")
OF_PROMETHEUS = {"instance", "job", "le"}
UNIT = REPOSITORY / "deploy" / "sluice.service"
SEVERITIES = {"info", "warning", "critical"}
PARTS = ("_bucket", "_sum", "_count")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    return dict(json.loads(DASHBOARD.read_text()))


def panel_expressions() -> list[str]:
    panels = dashboard()["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", [])]


def plain(expression: str) -> str:
    """With Grafana's own variables put in."""
    return expression.replace("$__rate_interval", "5m")


def selectors(expression: str) -> list[promql_parser.VectorSelector]:
    """Every selector of an expression, however deep. Raises ValueError for one that is none."""
    seen: list[promql_parser.VectorSelector] = []

    def visit(node: object) -> bool:
        if isinstance(node, promql_parser.VectorSelector):
            seen.append(node)
        elif isinstance(node, promql_parser.MatrixSelector):
            seen.append(node.vector_selector)
        return True

    promql_parser.walk(promql_parser.parse(expression), visit)
    return seen


EXPRESSIONS = [*(rule["expr"] for rule in rules()), *map(plain, panel_expressions())]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_each_expression_parses_and_names_metrics_and_labels_that_there_are(
    db: None, expression: str
) -> None:
    known = {row.name: row for row in list_metrics()}

    wanted = selectors(expression)

    assert {selector.name for selector in wanted} >= set(NAME.findall(expression))
    for selector in wanted:
        if selector.name == "up":
            continue
        labels = {matcher.name for matcher in selector.matchers.matchers}
        assert labels <= {*_row_of(selector.name or "", known).labels, *OF_PROMETHEUS}, expression


def _row_of(name: str, known: dict[str, MetricRow]) -> MetricRow:
    whole = next((name.removesuffix(part) for part in PARTS if name.endswith(part)), name)
    row = known.get(name) or known.get(whole)
    assert row is not None, f"nothing exports {name}"
    assert (row.kind == "histogram") is (name != row.name), f"{name} is a {row.kind}"
    return row


def test_every_name_in_the_files_is_in_a_scrape(db: None, scraped: Scrape) -> None:
    busy_table("trips")
    marker_server()
    count_round(looked_at=1, synced=1, left=0, took_s=0.1)
    count_ended("write", "succeeded", requested_at=BASE, started_at=BASE, finished_at=BASE)
    count_delivery("webhook", "sent")
    scraped()  # The first one counts the request that the second one shows.

    exported = {name for name, _ in scraped()}

    wanted = {name for text in (DASHBOARD, ALERTS) for name in NAME.findall(text.read_text())}
    assert len(wanted) > 30
    assert wanted - exported == set()


def test_every_metric_is_on_the_dashboard(db: None) -> None:
    text = DASHBOARD.read_text()

    assert [row.name for row in list_metrics() if row.name not in text] == []


def test_each_rule_says_what_is_wrong_how_bad_and_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]

    assert len(names) == len(set(names)) >= 15
    for rule in rules():
        assert rule["labels"]["severity"] in SEVERITIES, rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description"}, rule["alert"]
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "0s")), rule["alert"]


def test_a_message_of_an_alert_that_was_given_up_is_an_alert_itself() -> None:
    wanted = [selector for rule in rules() for selector in selectors(rule["expr"])]

    assert {
        str(matcher.value)
        for selector in wanted
        if selector.name == "sluice_alert_deliveries_total"
        for matcher in selector.matchers.matchers
        if matcher.name == "state"
    } == {"dead"}


def test_panels_have_an_id_and_a_place_of_their_own() -> None:
    panels = dashboard()["panels"]
    cells = [
        (panel["gridPos"]["x"] + column, panel["gridPos"]["y"] + line)
        for panel in panels
        for column in range(panel["gridPos"]["w"])
        for line in range(panel["gridPos"]["h"])
    ]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(cells) == len(set(cells)), "two of them lie on each other"
    assert max(column for column, _ in cells) == 23


def test_the_documentation_lists_every_metric(db: None) -> None:
    text = (REPOSITORY / "docs" / "monitoring.md").read_text()

    listed = [line for line in text.splitlines() if line.startswith("| `sluice_")]

    assert "\n".join(listed) in format_markdown(list_metrics())
    assert len(listed) == len(list_metrics())


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda text: text.replace("sluice_tables", "sluice_tabels"), "nothing exports"),
        (lambda text: text.replace('{check="redis"}', '{chek="redis"}'), "chek"),
    ],
)
def test_a_mistake_in_an_expression_is_noticed(
    db: None, spoil: Callable[[str], str], complaint: str
) -> None:
    spoilt = spoil('sluice_tables > sum(sluice_check_well{check="redis"})')

    with pytest.raises(AssertionError, match=complaint):
        test_each_expression_parses_and_names_metrics_and_labels_that_there_are(None, spoilt)


def test_the_unit_of_systemd_starts_a_command_that_there_is(tmp_path: Path) -> None:
    """What it counts on of the command: `test_a_node_in_the_foreground_...` of the node's tests."""
    text = UNIT.read_text().replace("/opt/sluice/.venv/bin/python", sys.executable)
    copy = tmp_path / UNIT.name
    copy.write_text(text.replace("/opt/sluice", str(REPOSITORY)))
    words = shlex.split(re.findall(r"^ExecStart=(.*)$", copy.read_text(), re.MULTILINE)[0])

    assert words[:3] == [sys.executable, str(REPOSITORY / "manage.py"), "up"]
    assert Path(words[1]).is_file()
    assert Up().create_parser("manage.py", "up").parse_args(words[3:]).foreground
    analyze = shutil.which("systemd-analyze")
    if analyze is not None:
        checked = subprocess.run(
            [analyze, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stderr) == (0, "")
