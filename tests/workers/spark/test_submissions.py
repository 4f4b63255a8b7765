"""`spark-submit` commands as values: what they contain, where secrets are, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from workers.errors import InvalidInput
from workers.jobs import ServiceJob, SinkJob, WriteJob
from workers.spark.cluster import Cluster
from workers.spark.submit import Job, Submission, build_submission, main, parse_job, submit

SECRET = "the-secret-of-a-bucket"
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
    "SLUICE_MARKER_SECRET": "the-secret-of-markers",
    "SLUICE_SECRET_KEY": "of-cookies",
    "SLUICE_SPARK_REMOTE": "sc://localhost:15002",
    "HADOOP_CONF_DIR": "/etc/hadoop",
}
IMAGE = {"spark.kubernetes.container.image": "lake/executor:1"}
SESSION = str(uuid.uuid4())
WRITE = WriteJob(
    operation_id="w1",
    table="s3://lake/rows",
    source={"kind": "csv", "path": "/data/rows.csv"},
    session_id=SESSION,
    run_dir="/runs/w1",
)
SINK = SinkJob(
    operation_id="k1",
    table="/lake/rows",
    sink_options={"hoodie.kafka.topic": "rows"},
    session_id=SESSION,
    run_dir="/runs/k1",
)
SERVICE = ServiceJob(
    operation_id="c1", table="/lake/rows", service="compaction", by="a test", run_dir="/runs/c1"
)
STANDALONE = Cluster(
    master="spark://head:7077",
    driver_host="laptop.example",
    python="/opt/python/bin/python",
    settings={"spark.executor.memory": "2g", "spark.authenticate.secret": "of-spark"},
)


def read_properties(submission: Submission) -> dict[str, str]:
    (text,) = (text for path, text in submission.files.items() if path.endswith("spark.properties"))
    return dict(line.split("=", 1) for line in text.splitlines())


@pytest.mark.parametrize("job", [WRITE, SINK, SERVICE], ids=["write", "sink", "service"])
def test_each_kind_of_job_is_one_command_in_client_mode(job: Job) -> None:
    submission = build_submission(job, STANDALONE, ENVIRONMENT)

    assert submission.words[0].endswith("/pyspark/bin/spark-submit")
    assert submission.words[1:] == (
        *("--master", "spark://head:7077", "--deploy-mode", "client"),
        *("--name", f"sluice-{job.operation_id}"),
        *("--properties-file", f"{job.run_dir}/spark.properties", "--load-spark-defaults"),
        *(f"{job.run_dir}/driver_program.py", f"{job.run_dir}/job.json"),
    )
    assert parse_job(json.loads(submission.files[f"{job.run_dir}/job.json"])) == job
    assert submission.environment["PYSPARK_PYTHON"] == "/opt/python/bin/python"
    assert submission.environment["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert "SLUICE_SPARK_REMOTE" not in submission.environment
    assert "SLUICE_SECRET_KEY" not in submission.environment
    assert read_properties(submission)["spark.driver.host"] == "laptop.example"
    assert read_properties(submission)["spark.executor.memory"] == "2g"


def test_no_secret_is_an_argument(tmp_path: Path) -> None:
    """Each user of a machine sees the arguments of its processes."""
    submission = build_submission(WRITE, STANDALONE, ENVIRONMENT)

    arguments = " ".join(submission.words)
    for secret in (SECRET, "of-spark", "the-secret-of-markers"):
        assert secret not in arguments
    properties = read_properties(submission)
    assert properties["spark.executorEnv.AWS_SECRET_ACCESS_KEY"] == SECRET
    assert properties["spark.authenticate.secret"] == "of-spark"
    assert "spark.executorEnv.SLUICE_MARKER_SECRET" not in properties
    assert submission.environment["SLUICE_MARKER_SECRET"] == "the-secret-of-markers"


def test_tables_in_folders_take_no_keys_of_buckets_along() -> None:
    properties = read_properties(build_submission(SINK, STANDALONE, ENVIRONMENT))

    assert [key for key in properties if key.startswith("spark.executorEnv.")] == []


def test_pods_show_no_secret() -> None:
    cluster = Cluster(master="k8s://https://api:6443", driver_host="laptop", settings=IMAGE)
    with pytest.raises(InvalidInput, match="AWS_SECRET_ACCESS_KEY"):
        build_submission(WRITE, cluster, ENVIRONMENT)

    references = {
        f"spark.kubernetes.executor.secretKeyRef.{name}": f"bucket:{name}"
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    }
    cluster = Cluster(
        master="k8s://https://api:6443", driver_host="laptop", settings={**IMAGE, **references}
    )
    submission = build_submission(WRITE, cluster, ENVIRONMENT)

    properties = read_properties(submission)
    assert SECRET not in "".join(submission.files.values())
    assert properties["spark.executorEnv.AWS_ENDPOINT_URL"] == "http://127.0.0.1:9000"
    assert "spark.executorEnv.AWS_SECRET_ACCESS_KEY" not in properties


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"master": "local[2]"}, "Spark master must be"),
        ({"master": "spark://head:7077 --conf x"}, "Spark master must be"),
        ({"driver_host": ""}, "name or address of a host"),
        ({"bind_address": "a b"}, "name or address of a host"),
        ({"python": "python\n3"}, "path of a Python"),
        ({"settings": {"hadoop.x": "1"}}, r"must begin with 'spark\.'"),
        ({"settings": {"spark.x\nspark.y": "1"}}, r"must begin with 'spark\.'"),
        ({"settings": {"spark.driver.host": "elsewhere"}}, "set by the engine"),
        ({"settings": {"spark.sql.session.timeZone": "CET"}}, "set by the engine"),
    ],
)
def test_a_cluster_that_cannot_be_one_is_refused(fields: Mapping[str, Any], match: str) -> None:
    with pytest.raises(InvalidInput, match=match):
        Cluster(**{"master": "spark://head:7077", "driver_host": "laptop", **fields})


def test_yarn_and_kubernetes_say_what_they_need() -> None:
    yarn = Cluster(master="yarn", driver_host="laptop")
    pods = Cluster(master="k8s://https://api:6443", driver_host="laptop")

    with pytest.raises(InvalidInput, match="HADOOP_CONF_DIR"):
        build_submission(SINK, yarn, {"PATH": "/bin"})
    with pytest.raises(InvalidInput, match=r"image.*spark\.kubernetes\.container\.image"):
        build_submission(SINK, pods, ENVIRONMENT)
    assert build_submission(SINK, yarn, ENVIRONMENT).words[2] == "yarn"


def test_a_setting_keeps_its_backslashes_and_lines() -> None:
    cluster = Cluster(
        master="yarn", driver_host="laptop", settings={"spark.executor.x": " a\\b\nspark.y=1"}
    )

    text = build_submission(SINK, cluster, ENVIRONMENT).files["/runs/k1/spark.properties"]

    assert "spark.executor.x=\\ a\\\\b\\nspark.y=1\n" in text


def test_a_command_that_fails_leaves_no_secret_in_the_run_directory(tmp_path: Path) -> None:
    """Nothing listens at the master's port, and Java is missing."""
    job = ServiceJob(
        operation_id="c2", table="/lake/rows", service="clean", by="a test", run_dir=str(tmp_path)
    )
    environment = {**ENVIRONMENT, "JAVA_HOME": str(tmp_path / "no-java")}

    code = submit(job, STANDALONE, environment)

    assert code != 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "driver.log",
        "driver_program.py",
        "job.json",
    ]
    assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.glob("*.[jp]*"))


def test_the_program_refuses_a_wrong_job_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"service": "compaction", "table": "relative"}))

    code = main(["--master", "spark://head:7077", "--driver-host", "laptop", str(file)])

    assert code == 2
    assert capsys.readouterr().err.startswith("path is not absolute and normal: name=table")


def test_the_program_takes_secret_settings_from_a_file_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.json"
    file.write_text("{}")
    words = ["--master", "spark://head:7077", "--driver-host", "laptop", str(file)]

    code = main([*words, "--conf", "spark.authenticate.secret=of-spark"])

    assert code == 2
    refusal = capsys.readouterr().err
    assert "name that by --settings: key=spark.authenticate.secret" in refusal
    assert "of-spark" not in refusal


def test_the_command_is_a_program_of_its_own(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "workers.spark.submit", "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert "--driver-host" in ended.stdout
