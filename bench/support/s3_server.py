"""Starting and steering the S3 server of `s3_process`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import requests

from bench.support.s3_process import CONTROL

BUCKET = "lake"
_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "AKIAEXAMPLEEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "a-secret-that-no-page-shows",
    "AWS_REGION": "us-east-1",
}


@dataclass(frozen=True)
class S3Server:
    port: int

    @property
    def environment(self) -> dict[str, str]:
        """With what a process reaches it."""
        return {**_CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}"}

    def order(self, **order: Any) -> dict[str, Any]:
        """`latency_ms`, `faults`, `reset`; answers what was counted before. See `Front`."""
        url = f"http://127.0.0.1:{self.port}{CONTROL}"
        answer = requests.post(url, json=order, timeout=30)
        answer.raise_for_status()
        state: dict[str, Any] = answer.json()
        return state

    @contextmanager
    def failing(self, *faults: Mapping[str, Any]) -> Iterator[None]:
        self.order(faults=list(faults))
        try:
            yield
        finally:
            self.order(faults=[])


def hudi_rs_options() -> dict[str, str]:
    """With what hudi-rs reads a table there."""
    environment = shared_server().environment
    return {
        "aws_endpoint": environment["AWS_ENDPOINT_URL"],
        "aws_access_key_id": environment["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": environment["AWS_SECRET_ACCESS_KEY"],
        "aws_region": environment["AWS_REGION"],
        "aws_allow_http": "true",
    }


@cache
def shared_server() -> S3Server:
    """One for all tests of this process; it ends with it."""
    return S3Server(_started())


def _started() -> int:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.support.s3_process", "--bucket", BUCKET],
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.strip().isdigit(), f"the S3 server did not start: {line!r}"
    return int(line)
