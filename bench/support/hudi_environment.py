"""Apache Hudi 1.2 on Spark 3.5 in an environment of its own: second referee, and the bench's peer.

Made on first use in `var/peers/hudi`: a venv with the pinned Spark, and Hudi's bundle resolved by
that Spark. `SLUICE_HUDI_VENV` and `SLUICE_HUDI_JAR` name ones that stand already. Our own Spark is
another version, so nothing of this is ever imported: callers start its Python as a process.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SPARK_VERSION: Final = "3.5.9"
HUDI_VERSION: Final = "1.2.0"
BUNDLE: Final = "hudi-spark3.5-bundle_2.12"

_HOME = Path(__file__).resolve().parents[2] / "var" / "peers" / "hudi"
_TIMEOUT_S = 1_800.0
_LAST_LINES = 5
_RESOLVE = f"""
import sys
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.jars.ivy", sys.argv[1])
    .config("spark.jars.packages", "org.apache.hudi:{BUNDLE}:{HUDI_VERSION}")
    .getOrCreate()
)
spark.stop()
"""


@dataclass(frozen=True, slots=True)
class HudiEnvironment:
    python: Path
    """Runs pyspark 3.5."""
    jar: Path
    """Hudi's Spark bundle, for `spark.jars`."""


@dataclass(frozen=True, slots=True)
class HudiMissing:
    reason: str


class _StepFailed(Exception):
    """A step of the installation failed; the text says which, and the end of what it printed."""


def hudi_environment(
    environment: Mapping[str, str] = os.environ, *, within_s: float = _TIMEOUT_S
) -> HudiEnvironment | HudiMissing:
    """Return where Hudi is, or why it is missing. Make it first if it is not there (some minutes,
    once) and that takes at most `within_s`.
    """
    deadline_s = time.monotonic() + within_s
    try:
        with _one_at_a_time():
            return HudiEnvironment(_python(environment, deadline_s), _jar(environment, deadline_s))
    except _StepFailed as failed:
        return HudiMissing(str(failed))


def _python(environment: Mapping[str, str], deadline_s: float) -> Path:
    if named := environment.get("SLUICE_HUDI_VENV"):
        return _existing(Path(named) / "bin" / "python", "SLUICE_HUDI_VENV")
    venv, done = _HOME / "venv", _HOME / f"venv-{SPARK_VERSION}.done"
    python = venv / "bin" / "python"
    if not done.exists():
        shutil.rmtree(venv, ignore_errors=True)  # Half of one, or of another version.
        _run("create a venv", [sys.executable, "-m", "venv", str(venv)], deadline_s)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run("install Spark", [*pip, f"pyspark=={SPARK_VERSION}"], deadline_s)
        done.touch()
    return python


def _jar(environment: Mapping[str, str], deadline_s: float) -> Path:
    if named := environment.get("SLUICE_HUDI_JAR"):
        return _existing(Path(named), "SLUICE_HUDI_JAR")
    ivy = _HOME / "ivy"
    jar = ivy / "jars" / f"org.apache.hudi_{BUNDLE}-{HUDI_VERSION}.jar"
    if not jar.exists():
        command = [str(_python(environment, deadline_s)), "-c", _RESOLVE, str(ivy)]
        _run("resolve Hudi's bundle", command, deadline_s, without="SPARK_HOME")
    return _existing(jar, "the resolved bundle")


def _existing(path: Path, what: str) -> Path:
    if not path.exists():
        raise _StepFailed(f"{what} leads to {path}, which is not there")
    return path


def _run(step: str, command: list[str], deadline_s: float, *, without: str = "") -> None:
    environment = {name: value for name, value in os.environ.items() if name != without}
    try:
        done = subprocess.run(
            command,
            cwd=_HOME,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=max(0.0, deadline_s - time.monotonic()),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _StepFailed(f"could not {step}: {error}") from error
    if done.returncode:
        last_lines = done.stdout.decode(errors="replace").splitlines()[-_LAST_LINES:]
        raise _StepFailed(f"could not {step}: " + " | ".join(last_lines))


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two test processes may ask at once; the second finds what the first has made."""
    _HOME.mkdir(parents=True, exist_ok=True)
    with (_HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    environment = hudi_environment()
    if isinstance(environment, HudiMissing):
        sys.exit(f"Apache Hudi is not available: {environment.reason}")
    sys.stdout.write(f"SLUICE_HUDI_VENV={environment.python.parents[1]}\n")
    sys.stdout.write(f"SLUICE_HUDI_JAR={environment.jar}\n")
