"""The merge of column groups alone, in memory: later states into the rows of a base file."""

from __future__ import annotations

import json
from typing import Final

import numpy as np
import pyarrow as pa

from bench.drivers.serving import Job, serve
from bench.wide_rows import GROUPS, STREAMS, Versions, all_streams
from workers.files.meta_columns import RECORD_KEY
from workers.merge.group_base import merge_states_into
from workers.merge.group_merge import states_from_batch
from workers.merge.versions import DELETE, DELETED_FIELD, ROW
from workers.options.column_groups import GroupRule, group_rule
from workers.options.group_keys import GROUPS_KEY

_DELETED_SHARE: Final = 0.1


class Kernel:
    """A base of all keys, and a share of them in logs of each stream, a tenth of these deletes."""

    def __init__(self) -> None:
        pa.set_cpu_count(1)
        rule = group_rule({GROUPS_KEY: json.dumps(GROUPS)}, apart=("key",), ordering=())
        assert rule is not None
        self._rule: GroupRule = rule

    def prepare(self, keys: int, delta: int) -> int:
        """Rows of both sides."""
        self._base = self._states(all_streams(keys))
        count = delta // len(STREAMS)
        parts = []
        for name in STREAMS:
            rows = Versions.drawn(name, 1, keys=keys, count=count).table(name)
            is_deleted = np.random.default_rng(count).random(count) < _DELETED_SHARE
            kinds = pa.array(np.where(is_deleted, DELETE, ROW).astype(np.int8))
            parts.append(self._states(rows.append_column(DELETED_FIELD, kinds)))
        self._newer = pa.concat_tables(parts, promote_options="default")
        return int(self._base.num_rows + self._newer.num_rows)

    def _states(self, rows: pa.Table) -> pa.Table:
        return states_from_batch(rows.append_column(RECORD_KEY, rows.column("key")), self._rule)

    def merge(self) -> int:
        return int(merge_states_into(self._base, self._newer, self._rule).num_rows)


def jobs() -> dict[str, Job]:
    kernel = Kernel()
    return {"prepare": kernel.prepare, "merge": kernel.merge}


if __name__ == "__main__":
    serve(jobs)
