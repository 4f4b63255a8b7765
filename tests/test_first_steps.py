"""What somebody meets first: the environment, the README's examples as they stand, and one sentence
where something is missing.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from workers.errors import KafkaFailed
from workers.sink.kafka.broker import load_class_path

pytestmark = pytest.mark.process

PROJECT = Path(__file__).resolve().parents[1]
README = (PROJECT / "README.md").read_text(encoding="utf-8")
PYTHON_PAGE = (PROJECT / "docs" / "python.md").read_text(encoding="utf-8")
OURS = ("token", "up", "table", "write", "sink", "doctor")


def run(
    *words: str | Path, cwd: Path, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """As in a shell where nobody has set anything up."""
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("SLUICE_", "DJANGO_", "PYTHON"))
    }
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**kept, **(environ or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr


def manage(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environ = {"SLUICE_HOME": str(home), **more}
    return run(sys.executable, "manage.py", *words, cwd=PROJECT, environ=environ)


def find_blocks(page: str, language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [text for of, text in fenced if of == language]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One in which the requirements are there already, and `make setup` was run twice."""
    made = tmp_path_factory.mktemp("first") / ".venv"
    venv.create(made, with_pip=False, symlinks=True)
    inner = made / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
    (inner / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pinned = [
        (PROJECT / name).read_bytes()
        for name in (
            "requirements.txt",
            "requirements-otel.txt",
            "requirements-polars.txt",
            "requirements-dev.txt",
        )
    ]
    (made / ".requirements.sha256").write_text(sha256(b"".join(pinned)).hexdigest() + "\n")
    (inner / "sluice.pth").write_text("/where/the/checkout/was/once\n")
    for _ in range(2):
        done = run("make", "setup", f"VENV={made}", cwd=PROJECT)
        assert done.returncode == 0, said(done)
    assert (inner / "sluice.pth").read_text() == f"{PROJECT}\n{PROJECT}/workers/public\n"
    return made


def test_the_examples_of_the_readme_run_in_their_order_from_any_folder(
    environment: Path, tmp_path: Path
) -> None:
    examples = [*find_blocks(README, "python"), *find_blocks(PYTHON_PAGE, "python")]
    assert len(examples) >= 5
    program = tmp_path / "examples.py"
    program.write_text("\n".join([*examples, "print(table, ads.read().to_pylist())"]))

    done = run(environment / "bin" / "python", program, cwd=tmp_path)

    assert done.returncode == 0, said(done)
    assert "Committed(instant=" in done.stdout
    assert "<people: COPY_ON_WRITE of id at " in done.stdout
    assert "'banner': 'top'" in done.stdout
    assert "'button': 'buy'" in done.stdout
    assert done.stderr.count("no marker server is set") == 1


def test_the_tutorial_of_streams_gives_the_row_that_it_shows(
    environment: Path, tmp_path: Path
) -> None:
    page = (PROJECT / "docs" / "streams.md").read_text(encoding="utf-8")
    source = "\n".join([*find_blocks(page, "python"), "print(table.read().to_pylist())"])
    assert '"/data/ads"' in source
    program = tmp_path / "streams.py"
    program.write_text(source.replace("/data/ads", str(tmp_path / "ads")))

    done = run(environment / "bin" / "python", program, cwd=tmp_path)

    assert done.returncode == 0, said(done)
    row = "'campaign': 'spring', 'price': 5, 'clicked_at': 170, 'x': 3, 'y': 4}]"
    assert done.stdout.strip().endswith(row)


def test_the_commands_of_the_readme_run_in_their_order(tmp_path: Path) -> None:
    """In a checkout's place whose node was never started, except for those that need one."""
    commands = [line for block in find_blocks(README, "") for line in block.splitlines()]
    loads = [line for line in commands if " write " in line]
    assert loads
    assert ".venv/bin/python manage.py token create admin" in commands
    header = "origin,time_hour,temp,dewp,humid,wind_dir,wind_speed,wind_gust"
    (tmp_path / "weather.csv").write_text(
        f"{header}\nEWR,2013-01-01T06:00:00Z,39,26,59,270,10,NA\n"
    )

    for line in loads:
        words = shlex.split(line.replace("weather.csv", str(tmp_path / "weather.csv")))
        assert words[:2] == [".venv/bin/python", "manage.py"]
        done = manage(tmp_path / "home", *words[2:])

        assert done.returncode == 0, said(done)
        assert "rows in the table: 1 (" in done.stdout


@pytest.mark.slow
def test_help_lists_our_commands_before_there_is_a_node(tmp_path: Path) -> None:
    for words in (["--help"], []):
        done = manage(tmp_path, *words)

        assert [name for name in OURS if f"\n    {name}\n" not in done.stdout] == []
        assert "not properly configured" not in said(done)
    assert "create" in manage(tmp_path, "token", "--help").stdout


@pytest.mark.sampled(every=5)
@pytest.mark.parametrize("words", ["up --no-demo", "status", "migrate", "token list ada", "doctor"])
def test_a_home_that_cannot_be_used_is_one_sentence(tmp_path: Path, words: str) -> None:
    (tmp_path / "file").write_text("")
    for home in (tmp_path / "file", tmp_path / "file" / "below"):
        done = manage(home, *words.split())

        assert "Traceback" not in said(done)
        if words.startswith("up"):
            assert done.returncode == 1
            assert done.stderr.startswith(f"SLUICE_HOME={home} cannot be used"), done.stderr
            assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("made", [False, True], ids=["no folder", "no tables"])
@pytest.mark.slow
def test_a_database_that_is_not_there_is_one_sentence(tmp_path: Path, made: bool) -> None:
    """The secrets are given, so nothing tells before that the node was never started."""
    home = tmp_path / "home"
    if made:
        home.mkdir()

    done = manage(home, "table", "list", SLUICE_SECRET_KEY="k" * 50)

    assert done.returncode == 1
    assert done.stderr.startswith("the node's database cannot be used: "), done.stderr
    assert "`make up` makes it" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_damaged_file_of_the_node_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "secrets.json").write_text("{")

    done = manage(tmp_path, "status")

    assert done.returncode == 1
    assert "secrets.json is damaged" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_missing_secret_key_is_one_sentence_wherever_the_node_is_started(tmp_path: Path) -> None:
    environ = {"SLUICE_HOME": str(tmp_path), "PYTHONPATH": str(PROJECT)}
    programs = [
        ("manage.py", "check"),
        ("-c", "import controlplane.asgi"),
        ("-m", "controlplane.node.launch", "web"),
    ]
    for words in programs:
        done = run(sys.executable, *words, cwd=PROJECT, environ=environ)

        assert done.returncode == 1
        assert "`make up`" in done.stderr
        assert done.stderr.count("\n") == 1, done.stderr


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--key-from origin,hour", "columns that the file does not have"),
        ("--key-from origin --record-key origin", "a name that no column of the file has"),
        (
            "",
            "no column id: choose a column with --record-key, or choose the columns of a",
        ),
        (
            "--record-key origin --ordering hour",
            "the file has no column hour: choose a column with --ordering",
        ),
        (
            "--record-key origin --partition-by x",
            "has no column x: choose a column with --partition-by",
        ),
    ],
)
def test_a_wrong_key_is_one_sentence_in_the_words_of_the_command(
    tmp_path: Path, settings: Settings, words: str, sentence: str
) -> None:
    settings.SLUICE_TABLE_ROOTS = (str(tmp_path),)
    (tmp_path / "weather.csv").write_text("origin,time_hour\nEWR,1\n")

    with pytest.raises(CommandError) as refused:
        call_command("write", str(tmp_path / "weather.csv"), "--no-spark", *words.split())

    text = str(refused.value)
    assert sentence in text
    assert "origin" in text
    assert "hoodie." not in text
    assert "\n" not in text


def test_jars_that_cannot_be_fetched_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java-here"))

    with pytest.raises(KafkaFailed) as failed:
        load_class_path(tmp_path / "kafka", within_s=60)

    assert str(failed.value).startswith("could not fetch Kafka's jars (org.apache.kafka:kafka_")
    assert "\n" not in str(failed.value)
