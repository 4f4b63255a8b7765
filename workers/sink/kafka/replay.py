"""Dead letters back to where they came from: the same key and value, at a new offset.

The letter stays where it is; the table gets the record by the offset that it has now. Send a letter
again once: the sink keeps no two offsets apart that say the same.
"""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa

from workers.sink.kafka.client_config import ClientSettings
from workers.sink.kafka.topics import produce
from workers.sink.letters import KEY, VALUE
from workers.sink.tables import PARTITION, TOPIC


def produce_letters(settings: ClientSettings, letters: pa.Table, *, timeout_s: float = 60.0) -> int:
    """Send letters, as `read_letters` gives them, to their topics and partitions; how many.

    Raises KafkaFailed when that is not certain in time; some may be there then.
    """
    records: dict[tuple[str, int], list[tuple[bytes | None, bytes | None]]] = defaultdict(list)
    for one in letters.select([TOPIC, PARTITION, KEY, VALUE]).to_pylist():
        records[one[TOPIC], one[PARTITION]].append((one[KEY], one[VALUE]))
    return sum(
        produce(settings, topic, partition, each, timeout_s=timeout_s)
        for (topic, partition), each in records.items()
    )
