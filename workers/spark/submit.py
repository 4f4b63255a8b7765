"""Write, sink and service jobs as `spark-submit` commands, in client mode on a cluster.

`python -m workers.spark.submit --master spark://host:7077 --driver-host here job.json` runs the job
in the file and waits for its end; `submit` does the same from Python. The job is the message of
`workers.jobs`. Arguments name files only: settings and the environment of executors are in a file
that only its owner reads, because every user of a machine sees the arguments of processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workers.errors import InvalidInput
from workers.jobs import DriverJob, ServiceJob, driver_job
from workers.locations import is_bucket_location
from workers.masking import is_secret_name
from workers.spark.cluster import Cluster, is_submitted
from workers.spark.connect_server import PROJECT_ROOT, spark_home
from workers.spark.process import JOB_FILE, LOG_FILE, REMOTE_VARIABLE, driver_environment

EXIT_INVALID: Final = 2
PROGRAM_FILE: Final = "driver_program.py"
SETTINGS_FILE: Final = "spark.properties"

_PROGRAM: Final = """\
import sys

from workers.spark.runner import main

sys.exit(main(sys.argv[1:]))
"""
_OF_BUCKETS: Final = "AWS_"
"""Begins the names of variables that tasks of tables in buckets read."""
_OF_CONNECT: Final = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
_YARN_VARIABLES: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_KUBERNETES_IMAGE: Final = (
    "spark.kubernetes.container.image",
    "spark.kubernetes.executor.container.image",
)

_SECRET_REFERENCE: Final = "secretKeyRef"  # noqa: S105 - a part of names of settings

Job = DriverJob | ServiceJob


@dataclass(frozen=True, slots=True)
class Submission:
    """A `spark-submit` command as values; nothing is started or written yet."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    """All variables of the command."""
    files: Mapping[str, str]
    """Path to content; for the eyes of the owner only."""


def parse_job(message: object) -> Job:
    """Return the write, sink or service job of a message. Raises InvalidInput."""
    is_service = isinstance(message, dict) and "service" in message
    return ServiceJob.from_message(message) if is_service else driver_job(message)


def build_submission(job: Job, cluster: Cluster, environment: Mapping[str, str]) -> Submission:
    """Return the command that runs the driver of this job on this machine, and its tasks on the
    cluster.

    Raises InvalidInput for a job without a run directory, for YARN without its configuration, and
    for Kubernetes without an image or with secrets that Pods would show.
    """
    _check_manager(cluster, environment)
    if job.run_dir is None:
        raise InvalidInput("job needs a run directory", field="run_dir")
    folder = Path(job.run_dir)
    program, settings, message = (
        str(folder / name) for name in (PROGRAM_FILE, SETTINGS_FILE, JOB_FILE)
    )
    words = (
        str(spark_home() / "bin" / "spark-submit"),
        *("--master", cluster.master),
        *("--deploy-mode", "client"),
        *("--name", f"sluice-{job.operation_id}"),
        *("--properties-file", settings, "--load-spark-defaults"),
        *(program, message),
    )
    executors = _executor_variables(job, cluster, environment)
    properties = {
        **cluster.driver_settings(),
        "spark.pyspark.driver.python": sys.executable,
        **{f"spark.executorEnv.{name}": value for name, value in executors.items()},
    }
    files = {
        program: _PROGRAM,
        settings: "".join(f"{key}={_escape(value)}\n" for key, value in properties.items()),
        message: json.dumps(job.to_message()),
    }
    return Submission(words, _driver_variables(job, cluster, environment), files)


def submit(job: Job, cluster: Cluster, environment: Mapping[str, str] | None = None) -> int:
    """Run the job and return the exit code of its driver, as `workers.spark.runner.main` lists
    them. The run directory has its log, and `ending.json` how it ended. Raises as
    `build_submission`.
    """
    submission = build_submission(job, cluster, os.environ if environment is None else environment)
    assert job.run_dir is not None
    folder = Path(job.run_dir)
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / SETTINGS_FILE
    try:
        for path, content in submission.files.items():
            _write_private(Path(path), content)
        with (folder / LOG_FILE).open("ab") as log:
            ended = subprocess.run(
                submission.words,
                env=dict(submission.environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
    finally:
        settings.unlink(missing_ok=True)
    return ended.returncode


def main(arguments: Sequence[str]) -> int:
    """Run the job in the file that the arguments name; the exit code of its driver, 2 for arguments
    or a job that are wrong.
    """
    options = _parse(arguments)
    try:
        if is_submitted(os.environ):
            raise InvalidInput("start this program without spark-submit, which it calls")
        message = json.loads(options.job.read_bytes())
        cluster = Cluster(
            master=options.master,
            driver_host=options.driver_host,
            python=options.python,
            bind_address=options.bind_address,
            settings={**_load_settings(options.settings), **_parse_settings(options.conf)},
        )
        if isinstance(message, dict):
            message = {**_defaults(message, options.job), **message}
        return submit(parse_job(message), cluster)
    except (InvalidInput, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_INVALID


def _defaults(message: Mapping[str, object], path: Path) -> dict[str, object]:
    """Return the ids and the run directory, which a job that is written by hand leaves out."""
    operation_id = str(message.get("operation_id") or uuid.UUID(bytes=os.urandom(16), version=4))
    defaults: dict[str, object] = {
        "operation_id": operation_id,
        "run_dir": str(path.resolve().parent / operation_id),
    }
    if "service" in message:
        return {**defaults, "by": "submit"}
    return {**defaults, "session_id": str(uuid.UUID(bytes=os.urandom(16), version=4))}


def _check_manager(cluster: Cluster, environment: Mapping[str, str]) -> None:
    if cluster.master == "yarn" and not any(environment.get(name) for name in _YARN_VARIABLES):
        raise InvalidInput(
            "YARN needs the cluster's configuration; set HADOOP_CONF_DIR to its folder",
            master=cluster.master,
        )
    if cluster.is_kubernetes and not any(key in cluster.settings for key in _KUBERNETES_IMAGE):
        raise InvalidInput("Kubernetes needs an image for executors", setting=_KUBERNETES_IMAGE[0])


def _executor_variables(
    job: Job, cluster: Cluster, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return what tasks read from their environment: the keys and addresses of buckets."""
    if not is_bucket_location(job.table):
        return {}
    variables = {name: value for name, value in environment.items() if name.startswith(_OF_BUCKETS)}
    if not cluster.is_kubernetes:
        return variables
    secrets = [name for name in variables if is_secret_name(name)]
    references = f"spark.kubernetes.executor.{_SECRET_REFERENCE}."
    if open_to_all := sorted(name for name in secrets if references + name not in cluster.settings):
        raise InvalidInput(
            "executors' Pods would show secrets of the environment; name a Kubernetes secret for "
            f"each by the setting {references}NAME=secret:key",
            names=open_to_all,
        )
    return {name: value for name, value in variables.items() if name not in secrets}


def _driver_variables(job: Job, cluster: Cluster, environment: Mapping[str, str]) -> dict[str, str]:
    dropped = (*_OF_CONNECT, REMOTE_VARIABLE)
    passed_on = {name: value for name, value in environment.items() if name not in dropped}
    paths = [str(PROJECT_ROOT), *filter(None, [environment.get("PYTHONPATH")])]
    return {
        **driver_environment(passed_on, job.operation_id),
        "PYSPARK_PYTHON": cluster.python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(paths),
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": cluster.bind_address or cluster.driver_host,
        "SPARK_CONNECT_MODE": "0",
    }


def _escape(value: str) -> str:
    """Return the value as a properties file has it."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"\\{escaped}" if escaped.startswith((" ", "\t")) else escaped


def _write_private(path: Path, content: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(content)


def _load_settings(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    settings = json.loads(path.read_bytes())
    is_flat = isinstance(settings, dict) and all(type(text) is str for text in settings.values())
    if not is_flat:
        raise InvalidInput("expected a JSON object of texts", file=path)
    return dict(settings)


def _parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign:
            raise InvalidInput("expected key=value", got=key)
        if is_secret_name(key) and _SECRET_REFERENCE not in key:
            raise InvalidInput(
                "arguments are visible to all users of this machine; put this setting into a file "
                "and name that by --settings",
                key=key,
            )
        settings[key] = value
    return settings


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m workers.spark.submit", description="Run a job on a Spark cluster."
    )
    parser.add_argument("job", type=Path, help="file with the job as JSON")
    parser.add_argument("--master", required=True, help="spark://host:port, yarn, k8s://https://..")
    parser.add_argument(
        "--driver-host", required=True, help="name or address at which executors reach this machine"
    )
    parser.add_argument("--python", default="python3", help="the executors' Python")
    parser.add_argument("--bind-address", default="", help="the driver host's, if it is another")
    parser.add_argument(
        "--conf", action="append", default=[], help="setting of Spark, key=value; no secrets"
    )
    parser.add_argument("--settings", type=Path, help="JSON file with settings of Spark")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
