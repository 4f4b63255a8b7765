"""Requests of which one stream hears late: first all impressions, a while later their clicks.

Two writes of one run: `impression` brings the keys, and the share of keys that have clicks falls;
`click` has begun by then, waits, brings them, and the share is back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from workers.clock import Clock, InstantTime
from workers.demo.ad_requests import AdRequests, Stream
from workers.errors import InvalidInput
from workers.spark.inputs.source import JobSource, Surroundings, WrittenOnce

STREAMS: Final[tuple[Stream, ...]] = ("impression", "click")
REQUESTS: Final = 400
_YEAR_2100_S: Final = 4_102_444_800


@dataclass(frozen=True, slots=True)
class DemoLate(WrittenOnce):
    """One of the two streams of a burst of requests, whose commit may be held back."""

    requests: AdRequests
    stream: Stream
    hold_s: float
    clock: Clock

    @classmethod
    def from_job(cls, job_source: JobSource, around: Surroundings) -> DemoLate:
        """With `stream`, `run` (seconds since 1970, the burst's name), `seed` (7 unless given) and
        `hold_s`, the seconds to hold the commit back (0).

        Raises InvalidInput for another stream, another key or a value out of bounds.
        """
        job_source.only("stream", "run", "seed", "hold_s")
        stream = job_source.text("stream")
        if stream not in STREAMS:
            raise InvalidInput("only these streams come late", stream=stream, known=STREAMS)
        requests = AdRequests(
            seed=job_source.integer("seed", 7, least=0, most=2**31),
            run=job_source.integer("run", 0, least=0, most=_YEAR_2100_S),
            rounds=1,
            requests_per_round=REQUESTS,
        )
        hold_s = job_source.number("hold_s", 0.0, most=600)
        return cls(requests, stream, hold_s, around.table.ports.clock)

    def frame(self, spark: SparkSession, number: int) -> DataFrame:
        """The stream's events of all requests of the burst, whatever `number`."""
        return spark.createDataFrame(self.requests.events(self.stream, 0)).coalesce(1)

    def before_commit(self, instant: InstantTime) -> None:
        """Waits `hold_s`: that is what makes it late."""
        self.clock.sleep(self.hold_s)
