"""Threat T28: pins are matched with advisories that lie on this machine, in the form of OSV. The
network is never asked.
"""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from controlplane.node.advisories import judge

SAMPLES = Path(__file__).parent / "advisories"


@pytest.mark.parametrize(
    ("name", "version", "hits"),
    [
        ("requests", "2.31.0", ["GHSA-9wx4-h78v-vm56"]),
        ("Requests", "2.31", ["GHSA-9wx4-h78v-vm56"]),
        ("requests", "2.32.0rc1", ["GHSA-9wx4-h78v-vm56"]),
        ("requests", "2.32.0", []),
        ("requests", "2.34.2", []),
        ("django", "4.1.9", []),
        ("django", "4.2", ["PYSEC-0000-1"]),
        ("django", "4.2.15", ["PYSEC-0000-1"]),
        ("django", "4.2.16", []),
        ("django", "5.0.8", ["PYSEC-0000-1"]),
        ("django", "5.0.9", []),
        ("redis", "4.0.0", []),
        ("urllib3", "1.0", []),
    ],
)
def test_a_version_falls_under_an_advisory_as_its_ranges_say(
    name: str, version: str, hits: list[str]
) -> None:
    judged = judge(SAMPLES, [(name, version)])

    assert [hit.advisory for hit in judged.hits] == hits
    assert judged.records == 3


def test_an_archive_is_read_as_its_directory(tmp_path: Path) -> None:
    shutil.make_archive(str(tmp_path / "all"), "zip", SAMPLES)
    pins = [("requests", "2.31.0")]

    assert judge(tmp_path / "all.zip", pins) == judge(SAMPLES, pins)


def test_a_range_that_nobody_can_order_is_a_hit(tmp_path: Path) -> None:
    events = [{"introduced": "0"}, {"fixed": "the next one"}]
    affected = {
        "package": {"name": "celery", "ecosystem": "PyPI"},
        "ranges": [{"type": "ECOSYSTEM", "events": events}],
    }
    (tmp_path / "x.json").write_text(json.dumps({"id": "X-1", "affected": [affected]}))

    assert len(judge(tmp_path, [("celery", "5.7.0")]).hits) == 1


def test_the_command_names_a_hit_and_what_mends_it_until_somebody_accepts_it(
    tmp_path: Path,
) -> None:
    pins, printed = tmp_path / "pins.txt", io.StringIO()
    pins.write_text("# Pinned.\nrequests==2.31.0 \\\n    --hash=sha256:00\nDjango==5.2.19  # web\n")

    with pytest.raises(CommandError, match="2 packages compared with 3 advisories: 1 hits"):
        call_command("advisories", SAMPLES, pins=[pins], stdout=printed)

    assert printed.getvalue() == (
        "requests 2.31.0: GHSA-9wx4-h78v-vm56, CVE-2024-35195: Requests `Session` object does not "
        "verify requests after making first request with verify=False; fixed in 2.32.0\n"
    )
    call_command("advisories", SAMPLES, pins=[pins], accept=["CVE-2024-35195"], stdout=printed)
    assert printed.getvalue().endswith("2 packages compared with 3 advisories: no hits\n")


def test_what_a_node_installs_falls_under_none_of_the_samples() -> None:
    printed = io.StringIO()

    call_command("advisories", SAMPLES, stdout=printed)

    assert "no hit" in printed.getvalue()


@pytest.mark.parametrize(
    "content", ["[]", "{}", "no json", '{"id": 1}', '{"id": "x", "affected": 1}']
)
def test_a_record_that_is_none_is_refused_by_name(tmp_path: Path, content: str) -> None:
    shutil.copytree(SAMPLES, tmp_path / "osv")
    (tmp_path / "osv" / "odd.json").write_text(content)

    with pytest.raises(CommandError, match=r"odd\.json is not a valid OSV record"):
        call_command("advisories", tmp_path / "osv")


def test_an_empty_place_is_no_clean_bill(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no advisories for Python packages"):
        call_command("advisories", tmp_path)
    with pytest.raises(CommandError, match=r"must be a directory or a \.zip"):
        call_command("advisories", tmp_path / "nowhere")
