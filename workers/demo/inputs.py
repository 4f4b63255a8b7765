"""The demo's kinds of sources, by which a write job names them (`workers.spark.input_modules`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from workers.demo.late import DemoLate
from workers.demo.rivals import DemoBackfill, DemoEvolve
from workers.demo.streams import DemoStream
from workers.spark.inputs.opening import Opener

INPUTS: Final[Mapping[str, Opener]] = {
    "demo_stream": lambda job_source, around: DemoStream.from_job(job_source),
    "demo_backfill": DemoBackfill.from_job,
    "demo_evolve": DemoEvolve.from_job,
    "demo_late": DemoLate.from_job,
}
