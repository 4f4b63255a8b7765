"""The engine as one zip: the same bytes each time, whole, and importable without the checkout."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import uuid
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.classic_environment import classic_environment
from workers.concurrency.outcome import Committed
from workers.errors import InvalidInput
from workers.lakehouse import create_table
from workers.spark.connect_server import ConnectServer
from workers.spark.engine_archive import (
    ENGINE_SETTING,
    build_archive,
    engine_digest,
    ensure_archive,
    find_hiding_package,
    is_local_master,
    needs_engine,
    ship_engine,
)
from workers.spark.remote_packages import (
    PACKAGES,
    PythonFacts,
    check_executors,
    count_slots,
    find_faults,
    local_facts,
    prepare_executors,
)
from workers.spark.session import connect_session

PROJECT = Path(__file__).resolve().parents[3]
BYTES_MAX = 2_000_000
DIGEST = "from workers.spark.engine_archive import engine_digest; print(engine_digest())"


def test_one_engine_is_the_same_bytes_each_time() -> None:
    build = "import sys; from workers.spark.engine_archive import build_archive as b; "
    program = f"{build}sys.stdout.buffer.write(b())"
    other_process = subprocess.run(
        [sys.executable, "-c", program], cwd=PROJECT, capture_output=True, check=True
    )

    assert other_process.stdout == build_archive()
    assert len(build_archive()) <= BYTES_MAX


def test_the_zip_has_each_module_of_the_engine_and_nothing_else() -> None:
    expected = {str(path.relative_to(PROJECT)) for path in (PROJECT / "workers").rglob("*.py")}

    with zipfile.ZipFile(io.BytesIO(build_archive())) as archive:
        names = archive.namelist()

    assert names == sorted(names)
    assert set(names) == expected


def test_the_zip_is_the_engine_of_a_python_without_the_checkout(tmp_path: Path) -> None:
    """Executors report the digest of the engine that they import, so it must not depend on how."""
    archive = ensure_archive(tmp_path)
    where = "import sys; sys.path.insert(0, sys.argv[1]); import workers; print(workers.__file__); "

    # Without `site`, no path of this checkout is on `sys.path`.
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", where + DIGEST, str(archive.path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout.split() == [f"{archive.path}/workers/__init__.py", engine_digest()]


def test_a_damaged_zip_is_built_again(tmp_path: Path) -> None:
    path = ensure_archive(tmp_path).path
    path.write_bytes(path.read_bytes()[:-100])

    again = ensure_archive(tmp_path)

    assert again.path.read_bytes() == build_archive()
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("master", "is_local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[8,4]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://here:7077", False),
        ("yarn", False),
        ("k8s://https://here:6443", False),
        ("", False),
    ],
)
def test_only_tasks_in_the_drivers_own_jvm_need_no_engine(master: str, *, is_local: bool) -> None:
    assert is_local_master(master) == is_local


def test_what_executors_lack_is_named_with_the_places() -> None:
    here = local_facts()
    packages = {**here.packages, "fastavro": ""}
    lacking = [
        PythonFacts(f"host{number}:/app/{number}", here.python, here.engine, packages)
        for number in range(5)
    ]
    old = PythonFacts("host9:/app/9", "3.9", "", here.packages)

    faults = find_faults(here, [*lacking, old])

    assert faults == [
        "fastavro is missing at host0:/app/0, host1:/app/1, host2:/app/2 and 2 more",
        f"Python is 3.9 and not {here.python} at host9:/app/9",
        "the engine (package workers) is missing at host9:/app/9",
    ]
    other = PythonFacts("host1:/app/1", here.python, "another", here.packages, "/app/1/workers")
    (fault,) = find_faults(here, [other])
    assert fault == (
        "the engine (package workers) is another one than the driver's (rename or remove "
        "/app/1/workers) at host1:/app/1"
    )
    assert find_faults(here, [here]) == []


def test_another_package_in_a_working_folder_hides_the_engine(tmp_path: Path) -> None:
    """Python imports from its working folder before any zip."""
    package, module = tmp_path / "a" / "workers", tmp_path / "b" / "workers.py"
    no_package, same = tmp_path / "c" / "workers", tmp_path / "d" / "workers"
    for folder in (package, module.parent, no_package):
        folder.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    module.write_text("")
    (no_package / "data.csv").write_text("")
    with zipfile.ZipFile(ensure_archive(tmp_path).path) as archive:
        archive.extractall(same.parent)

    assert find_hiding_package(package.parent) == package
    assert find_hiding_package(module.parent) == module
    assert find_hiding_package(no_package.parent) is None
    assert find_hiding_package(same.parent) is None
    assert find_hiding_package(PROJECT) is None
    (same / "jobs.py").write_text("")
    assert find_hiding_package(same.parent) == same


WRITE = """
import sys
import pyarrow as pa
from pyspark.sql import SparkSession
from workers.lakehouse import create_table
from workers.errors import InvalidInput
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
rows = spark.range(0, 20_000).selectExpr("CAST(id AS STRING) AS id", "id AS at")
table = create_table(
    "table", name="t", schema=rows.schema, record_key=["id"], ordering=["at"]
)
try:
    table.write(rows, options={"hoodie.write.markers.type": "direct"})
except InvalidInput as error:
    print(error)
print(table.read().num_rows)
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_program_in_a_folder_with_another_package_is_refused_before_it_writes(
    tmp_path: Path,
) -> None:
    """Each task failed with `No module named 'workers.spark'`, four times."""
    program, folder = tmp_path / "programs" / "write.py", tmp_path / "here"
    for place in (program.parent, folder / "workers"):
        place.mkdir(parents=True)
    program.write_text(WRITE)
    (folder / "workers" / "__init__.py").write_text("")
    environment = classic_environment()

    def run(**more: str) -> str:
        ended = subprocess.run(
            [sys.executable, program],
            cwd=folder,
            env={**environment, **more},
            capture_output=True,
            text=True,
            check=False,
        )
        return ended.stdout or ended.stderr

    refused = run()

    sentence, rest = refused.splitlines()
    assert sentence.startswith(f"{folder}/workers hides the engine from Spark's Python"), refused
    assert "rename it, or start this program in another folder" in sentence
    assert rest == "0"
    shutil.rmtree(folder / "table")
    assert run(PYTHONSAFEPATH="1") == "20000\n"


@pytest.mark.spark
def test_a_local_server_of_this_checkout_gets_nothing(spark: SparkSession) -> None:
    assert not needs_engine(spark)
    assert ship_engine(spark) is None


@pytest.mark.spark
@pytest.mark.slow
def test_a_server_with_another_engine_gets_ours_once(server: ConnectServer, tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "at": [1, 2]})
    table = create_table(
        tmp_path / "t", name="t", schema=rows.schema, record_key=["id"], ordering=["at"]
    )
    spark = connect_session(server.remote, session_id=str(uuid.uuid4()), user_id="tests")
    try:
        # As a server announces that was started from another version.
        spark.conf.set(ENGINE_SETTING, "another")

        shipped = [ship_engine(spark), ship_engine(spark)]
        prepare_executors(spark, table.location)
        outcome = table.write(spark.createDataFrame(rows))

        assert [archive.digest for archive in shipped if archive is not None] == [
            engine_digest()
        ] * 2
        assert isinstance(outcome, Committed)
        assert count_slots(spark) == 4
    finally:
        spark.stop()


@pytest.mark.spark
def test_executors_without_a_package_are_refused_in_one_sentence(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput) as refusal:
        check_executors(spark, (*PACKAGES, "no_such_package"))

    message = str(refusal.value)
    assert message.startswith(
        "executors cannot run the engine's tasks, so nothing was written: "
        "no_such_package is missing at "
    )
    assert f"driver=[python {local_facts().python}, pyarrow {pa.__version__}" in message
    assert "\n" not in message
