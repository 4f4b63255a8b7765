"""Columns that Apache Hudi promotes by a write of another type: Sluice reads the values that Hudi
reads, on both table types.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.interop.foreign import options
from tests.support.hudi_peer import HudiPeer
from workers.lakehouse import open_table

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

_INTS, _LONGS = [7, -7, None], [2**53 + 1, -5, None]
_DOUBLES = [1.5, 1e10, None]
COLUMNS: dict[str, tuple[pa.DataType, list[Any], pa.DataType, list[Any]]] = {
    "int_long": (pa.int32(), _INTS, pa.int64(), [1]),
    "int_float": (pa.int32(), _INTS, pa.float32(), [1.5]),
    "int_double": (pa.int32(), _INTS, pa.float64(), [1.5]),
    "int_text": (pa.int32(), _INTS, pa.string(), ["x"]),
    "long_float": (pa.int64(), _LONGS, pa.float32(), [1.5]),
    "long_double": (pa.int64(), _LONGS, pa.float64(), [1.5]),
    "long_text": (pa.int64(), _LONGS, pa.string(), ["x"]),
    "float_double": (pa.float32(), _DOUBLES, pa.float64(), [1.5]),
    "float_text": (pa.float32(), _DOUBLES, pa.string(), ["x"]),
    "double_text": (pa.float64(), _DOUBLES, pa.string(), ["x"]),
}


def batch(first: int, at: int, values: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.Table:
    rows = len(next(iter(values.values()))[1])
    columns: dict[str, Any] = {
        "id": pa.array([f"k{first + number}" for number in range(rows)]),
        "ts": pa.array([at] * rows, pa.int64()),
        "place": pa.array(["Oslo"] * rows),
    }
    typed = {name: pa.array(found, kind) for name, (kind, found) in values.items()}
    return pa.table({**columns, **typed})


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_promoted_columns_hold_what_hudi_reads(
    table_type: str, location: Path, peer: HudiPeer
) -> None:
    given = options(table_type=table_type, more={"hoodie.index.type": "SIMPLE"})
    old = {name: (kind, values) for name, (kind, values, _, _) in COLUMNS.items()}
    new = {name: (kind, values) for name, (_, _, kind, values) in COLUMNS.items()}
    peer.write(location, batch(0, 1, old), given)
    peer.write(location, batch(1, 2, old), given)  # Of merge-on-read in a log.

    peer.write(location, batch(9, 3, new), given)

    wanted = sorted(peer.read(location).select(["id", *COLUMNS]).to_pylist(), key=str)
    ours = sorted(open_table(location).read(columns=["id", *COLUMNS]).to_pylist(), key=str)
    assert ours == wanted
