"""One stream of the demo as a source: calm rounds of a repeatable generator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from workers.clock import InstantTime
from workers.demo.ad_requests import STREAMS, AdRequests, Stream
from workers.errors import InvalidInput
from workers.spark.inputs.source import JobSource

_YEAR_2100_S = 4_102_444_800


@dataclass(frozen=True, slots=True)
class DemoStream:
    """The rounds of one stream of the demo's ad requests, each the same whenever it is made."""

    stream: Stream
    requests: AdRequests

    @classmethod
    def from_job(cls, job_source: JobSource) -> DemoStream:
        """The stream that a job names.

        Raises InvalidInput for a stream that the demo has not, another key or a value out of
        bounds.
        """
        job_source.only("stream", "seed", "run", "rounds", "requests_per_round", "pace_s")
        stream = job_source.text("stream")
        if stream not in STREAMS:
            raise InvalidInput("the demo has no such stream", stream=stream, known=STREAMS)
        requests = AdRequests(
            seed=job_source.integer("seed", 7, least=0, most=2**31),
            run=job_source.integer("run", 0, least=0, most=_YEAR_2100_S),
            rounds=job_source.integer("rounds", 40, least=1, most=10_000),
            requests_per_round=job_source.integer("requests_per_round", 40, least=1, most=100_000),
            pace_ms=int(job_source.number("pace_s", 5.0, most=3_600) * 1_000),
        )
        return cls(stream, requests)

    @property
    def run(self) -> int:
        """As the job names it, 0 unless given: rounds of another run are not counted as written."""
        return self.requests.run

    @property
    def rounds(self) -> int:
        """As the job names them, 40 unless given."""
        return self.requests.rounds

    @property
    def pace_s(self) -> float:
        """Seconds from the start of one round to the next, 5 unless the job names others."""
        return self.requests.pace_ms / 1_000

    @property
    def settled(self) -> Mapping[str, str]:
        """Nothing: its rounds follow from its parameters."""
        return {}

    @property
    def is_repeatable(self) -> bool:
        """Always: a round follows from the job and its number."""
        return True

    def frame(self, spark: SparkSession, number: int) -> DataFrame:
        """This stream's events of round `number`, in one partition of Spark."""
        events = self.requests.events(self.stream, number)
        return spark.createDataFrame(events).coalesce(1)  # A handful of rows: one task places them.

    def before_commit(self, instant: InstantTime) -> None:
        """Nothing: no rival is waited for."""
        return
