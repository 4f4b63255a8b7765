"""The wheel in environments outside the checkout: its content, the engine, and a whole node."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping
from email.parser import Parser
from hashlib import sha256
from pathlib import Path

import pytest

from workers.processes import find_free_port

pytestmark = [pytest.mark.slow, pytest.mark.process]

ROOT = Path(__file__).resolve().parents[2]
WHEEL_BYTES_MAX = 4 << 20
PROGRAM = """
import pyarrow as pa
from sluice import Committed, InvalidInput, create_table, open_table

schema = pa.schema({"id": pa.string(), "at": pa.int64(), "city": pa.string()})
table = create_table("people", name="people", schema=schema, record_key=["id"], ordering=["at"])
rows = pa.table({"id": ["a", "b"], "at": [1, 1], "city": ["Oslo", "Turku"]}, schema=schema)
assert isinstance(table.write(rows), Committed)
assert isinstance(table.delete(predicate="city = 'Oslo'"), Committed)
print(open_table("people").read().select(["id", "city"]).to_pylist())
try:
    open_table("s3://bucket/people")
except InvalidInput as error:
    print(error)
"""


def run(
    *words: str | Path, cwd: Path, timeout_s: int = 300, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, without variables of Sluice, Django or Python."""
    environ = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("DJANGO_", "PYTHON", "SLUICE_"))
    }
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**environ, **(more or {})},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def build_wheel(folder: Path, **more: str) -> Path:
    """Build the wheel of this checkout."""
    words = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder)
    done = run(*words, cwd=ROOT, more=more)
    assert done.returncode == 0, done.stderr
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Return an empty environment outside the checkout."""
    place = tmp_path / "environment"
    venv.create(place, with_pip=False, symlinks=True)
    return place


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def install(environment: Path, *words: str | Path) -> None:
    pip = (sys.executable, "-m", "pip", "--python", environment, "--disable-pip-version-check")
    done = run(*pip, "install", "--quiet", *words, cwd=environment, timeout_s=900)
    assert done.returncode == 0, done.stderr


def find_site(environment: Path) -> Path:
    [site] = environment.glob("lib/python3*/site-packages")
    return site


def test_the_same_sources_give_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    built = [build_wheel(tmp_path / day, SOURCE_DATE_EPOCH="1767225600") for day in ("1", "2")]

    assert len({sha256(file.read_bytes()).hexdigest() for file in built}) == 1
    assert len({sha256(file.read_bytes()).hexdigest() for file in (*built, wheel)}) == 2


def test_the_wheel_has_what_a_node_reads_and_no_place_of_this_machine(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
        here = [name for name in names if str(ROOT).encode() in files.read(name)]
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        fields = Parser().parsestr(files.read(metadata).decode())

    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"sluice", "sluice_client", "sluice_packages.pth"}
    packages = {name.split("/")[2] for name in names if name.startswith("sluice/_packages/")}
    assert packages == {"controlplane", "docs", "templates", "web", "workers"}
    for needed in (
        "sluice/py.typed",
        "sluice_client/py.typed",
        "sluice/_packages/docs/install.md",
        "sluice/_packages/templates/pages/login.html",
        "sluice/_packages/web/static/web/favicon.svg",
        "sluice/_packages/workers/py.typed",
    ):
        assert needed in names
    assert not any(name.startswith("sluice/_packages/workers/public") for name in names)
    assert here == []
    assert wheel.stat().st_size < WHEEL_BYTES_MAX
    always = [line for line in fields.get_all("Requires-Dist", ()) if "extra ==" not in line]
    assert sorted(line.partition("<")[0] for line in always) == [
        *("fastavro", "numpy", "psutil", "pyarrow")
    ]


def test_the_engine_alone_writes_and_reads_from_any_folder(
    wheel: Path, environment: Path, elsewhere: Path
) -> None:
    install(environment, wheel)
    python = environment / "bin" / "python"
    (elsewhere / "program.py").write_text(PROGRAM)

    done = run(python, "program.py", cwd=elsewhere)

    assert done.returncode == 0, done.stderr
    rows, refusal = done.stdout.splitlines()
    assert rows == "[{'id': 'b', 'city': 'Turku'}]"
    assert refusal == "obstore is not installed: pip install 'sluice[s3]'"
    missing = run(python, "-c", "import django", cwd=elsewhere)
    assert missing.stderr.endswith("No module named 'django'\n")
    up = run(environment / "bin" / "sluice", "up", cwd=elsewhere)
    assert up.returncode == 1
    assert up.stderr == (
        "sluice: commands need the packages of a node: pip install 'sluice[server]'\n"
    )
    assert (
        run(environment / "bin" / "sluice", "--version", cwd=elsewhere).stdout == "sluice 0.1.0\n"
    )
    sql = run(python, "-c", "from sluice import run_sql", cwd=elsewhere)
    assert sql.stderr.endswith("sqlglot is not installed: pip install 'sluice[sql]'\n")


def test_a_package_of_the_same_name_beside_ours_is_refused_and_stays_whole(
    wheel: Path, environment: Path, elsewhere: Path
) -> None:
    other = find_site(environment) / "workers"
    other.mkdir()
    (other / "__init__.py").write_text("whose = 'theirs'\n")
    install(environment, "--no-deps", "--no-index", wheel)
    python = environment / "bin" / "python"

    done = run(python, "-c", "from sluice import open_table", cwd=elsewhere)
    theirs = run(python, "-c", "import workers; print(workers.whose)", cwd=elsewhere)

    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: `workers` is {other}/__init__.py here, not the package")
    assert theirs.stdout == "theirs\n"


@pytest.fixture
def node(wheel: Path, environment: Path) -> Path:
    """Return an environment with the wheel, in which the packages of the checkout's are found, and
    not the checkout itself: a path file inside one that is found by a path file is not read.
    """
    site = find_site(environment)
    (site / "packages_of_the_checkout.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install(environment, "--no-deps", "--no-index", wheel)
    return environment


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    names = ("SLUICE_WEB_PORT", "SLUICE_SPARK_PORT", "SLUICE_MARKER_PORT")
    ports = {name: str(find_free_port()) for name in names}
    return {**ports, "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.mark.timeout(900)
def test_a_whole_node_starts_and_stops_in_an_unrelated_folder(
    node: Path, elsewhere: Path, settings: dict[str, str]
) -> None:
    """In a folder with another package `web`, which no process of the node may import."""
    (elsewhere / "web").mkdir()
    (elsewhere / "web" / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    sluice = node / "bin" / "sluice"
    before = {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")}

    doctor = run(sluice, "doctor", cwd=elsewhere, more=settings)
    assert doctor.returncode == 0, doctor.stdout
    try:
        up = run(sluice, "up", "--no-demo", cwd=elsewhere, timeout_s=700, more=settings)
        assert up.returncode == 0, up.stdout + up.stderr
        status = run(sluice, "status", cwd=elsewhere, more=settings)
        page = run(
            *(node / "bin" / "python", "-c"),
            "import sys, requests; print(requests.get(sys.argv[1], timeout=30).text)",
            f"http://127.0.0.1:{settings['SLUICE_WEB_PORT']}/login/",
            cwd=elsewhere,
        )
    finally:
        down = run(sluice, "down", cwd=elsewhere, more=settings)

    assert "`sluice down` stops the node" in up.stdout
    assert status.returncode == 0, status.stdout
    assert "<code>sluice up</code> prints the first account" in page.stdout
    assert down.stdout.endswith("Sluice is stopped; `up` starts it again with its data.\n")
    assert (Path(settings["XDG_STATE_HOME"]) / "sluice" / "db.sqlite3").is_file()
    assert {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")} == before


def test_the_bill_of_materials_and_the_doctor_read_what_is_installed(
    node: Path, elsewhere: Path, settings: dict[str, str]
) -> None:
    bill = run(node / "bin" / "sluice", "sbom", cwd=elsewhere, more=settings)
    other = find_site(node) / "pandas-9.9.9.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: pandas\nVersion: 9.9.9\n")
    doctor = run(node / "bin" / "sluice", "doctor", cwd=elsewhere, more=settings)

    assert '"name": "sluice",\n   "version": "0.1.0"' in bill.stdout, bill.stderr
    assert '"name": "pyarrow",\n   "version": "26' in bill.stdout
    assert "pandas is 9.9.9 instead of <3,>=2.3.3; run `pip install 'sluice[server]'`" in (
        doctor.stdout
    )
