"""The settings that hold: every one that the documentation names, its source, and no secret."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_django import Settings

from controlplane.node.effective import NODE_SETTINGS, SettingRow, effective_settings
from controlplane.node.identity import Identity, write_identity
from controlplane.node.places import Places
from controlplane.node.secrets_file import ensure_secrets

DOCUMENTED = Path(__file__).parents[3] / "docs" / "configuration.md"
SECRET = "correct-horse-battery"


def rows(environ: dict[str, str]) -> dict[str, SettingRow]:
    return {row.setting.name: row for row in effective_settings(environ)}


def test_the_page_knows_the_settings_that_the_documentation_has() -> None:
    section = DOCUMENTED.read_text().partition("## Settings")[2].partition("\n## ")[0]
    first_cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    documented = {name for cell in first_cells for name in re.findall(r"`([A-Z_]+)`", cell)}
    known = {setting.name for setting in NODE_SETTINGS}

    assert documented <= known
    assert {name for name in known - documented if not name.startswith("SLUICE_OIDC_")} == set()


def test_each_value_says_where_it_comes_from(tmp_path: Path, settings: Settings) -> None:
    settings.SLUICE_HOME = tmp_path
    places = Places(tmp_path)
    places.create()
    made = ensure_secrets(places.secrets)
    node = Identity(
        node="n", web_port=8123, spark_port=15002, marker_port=8766, sockets=str(tmp_path)
    )
    write_identity(places.identity, node)

    shown = rows(
        {
            "SLUICE_WEB_PORT": "8123",
            "SLUICE_LOG_LEVEL": "DEBUG",
            "SLUICE_WORKER_TOKEN": made.worker_token,
            "SLUICE_METRICS_TOKEN": SECRET,
        }
    )

    assert (shown["SLUICE_WEB_PORT"].shown, shown["SLUICE_WEB_PORT"].source) == (
        "8123", "node.json",
    )  # fmt: skip
    assert shown["SLUICE_LOG_LEVEL"].source == "environment"
    assert shown["SLUICE_LOG_FORMAT"].source == "default"
    assert shown["SLUICE_STALE_AFTER_S"].shown == str(settings.SLUICE_STALE_AFTER_S)
    assert shown["SLUICE_WORKER_TOKEN"].source == "secrets.json"
    assert shown["SLUICE_METRICS_TOKEN"].source == "environment"


def test_no_secret_is_shown_wherever_it_stands(tmp_path: Path, settings: Settings) -> None:
    settings.SLUICE_HOME = tmp_path
    environ = {
        "SLUICE_DATABASE": f"postgres://sluice:{SECRET}@db/sluice",
        "SLUICE_LOCK_URL": f"redis://:{SECRET}@locks:6379/0",
        "SLUICE_EMAIL_PASSWORD": SECRET,
        "SLUICE_SECRET_KEY": SECRET,
        "JAVA_TOOL_OPTIONS": f"-Dhttp.proxyPassword={SECRET}",
    }

    text = "\n".join(row.shown for row in effective_settings(environ))

    assert SECRET not in text
    assert "postgres://sluice:***@db/sluice" in text
