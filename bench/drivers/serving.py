"""A driver's loop: one job per line on standard input, one answer per line.

A job is `{"do": name, ...parameters}`; the answer is `{"s": seconds, "answer": ...}`. Seconds are
the function's own, so that neither pipes nor preparation count. An exception is an answer as well:
the driver stays warm, and the bench says which cell failed.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

Job = Callable[..., Any]


def serve(start: Callable[[], Mapping[str, Job]]) -> None:
    """Answer with the jobs that `start` gives, until standard input ends.

    Whatever else prints, a JVM that `start` starts included, goes to standard error.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    jobs = start()
    for line in sys.stdin:
        job = json.loads(line)
        answers.write(json.dumps(_answer(jobs[job.pop("do")], job)) + "\n")


def _answer(do: Job, parameters: dict[str, Any]) -> dict[str, Any]:
    started = time.perf_counter()
    try:
        answer = do(**parameters)
    except Exception as error:  # noqa: BLE001 # Whatever an engine raises is its answer.
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {str(error)[:300]}"}
    return {"s": time.perf_counter() - started, "answer": answer}
