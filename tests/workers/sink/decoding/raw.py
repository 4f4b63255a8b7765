"""Batches as a consumer gives them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workers.sink.batch import RawBatch
from workers.sink.config import SinkConfig, sink_config


def raw_batch(
    values: Sequence[bytes | None], *, keys: Sequence[bytes | None] = (), first: int = 0
) -> RawBatch:
    offsets = np.arange(first, first + len(values), dtype=np.int64)
    times = offsets + 1_700_000_000_000
    return RawBatch(values, keys, offsets, times, first + len(values), 1)


def sink(**options: str) -> SinkConfig:
    return sink_config({"hoodie.kafka.topic": "trips", **options})
