"""The conformance files of apache/parquet-testing: each is read as pyarrow reads it, or rejected in
one sentence. Check the repository out at `COMMIT` and name it by `SLUICE_PARQUET_TESTING`.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workers.errors import InvalidInput
from workers.loading.options import LoadOptions
from workers.loading.reader import open_rows, read_rows

COMMIT = "1a2a75127be06fc0123f03ebd36c966f7beda27d"
CHECKOUT = Path(os.environ.get("SLUICE_PARQUET_TESTING", "/nowhere"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not CHECKOUT.is_dir(),
        reason=f"SLUICE_PARQUET_TESTING names no checkout of apache/parquet-testing at {COMMIT}",
    ),
]
REJECTED = {
    "ARROW-GH-41317.parquet": "column=timestamp_us_no_tz",
    "ARROW-GH-41321.parquet": "column=int64",
    "ARROW-GH-45185.parquet": "column=x",
    "ARROW-GH-47662.parquet": "column=flba_field",
    "ARROW-RS-GH-6229-DICTHEADER.parquet": "column=nation_key",
    "ARROW-RS-GH-6229-LEVELS.parquet": "column=outer",
    "PARQUET-1481.parquet": "Invalid physical column type",
    "datapage_v1-corrupt-checksum.parquet": "column=a",
    "rle-dict-uncompressed-corrupt-checksum.parquet": "column=long_field",
    "incorrect_map_schema.parquet": "Map keys must be annotated",
    "int96_from_spark.parquet": "nanoseconds or a year.*row=6 column=a",
    "large_string_map.brotli.parquet": "far more data",
    "map_no_value.parquet": "map keys must be text.*column=my_map",
    "nested_maps.snappy.parquet": "map keys must be text.*column=a",
}


def list_files(*folders: str) -> list[Path]:
    paths = [path for folder in folders for path in sorted((CHECKOUT / folder).glob("*.parquet*"))]
    return [path for path in paths if path.suffix != ".json"]


def read(path: Path) -> pa.Table:
    options = LoadOptions(format="parquet", names="clean")
    return read_rows(open_rows([path], options))


def comparable(column: Any) -> Any:
    """The values as Python has them; numbers of dates that Python lacks, and NaN by its name."""
    try:
        values = column.to_pylist()
    except (OverflowError, ValueError):
        return str(column).replace("uint64", "int64")
    return [
        str(value) if isinstance(value, float) and math.isnan(value) else value for value in values
    ]


@pytest.mark.parametrize(
    "path", list_files("bad_data", "data", "data/geospatial"), ids=lambda path: path.name
)
def test_file_is_read_as_pyarrow_reads_it_or_rejected_in_a_sentence(path: Path) -> None:
    is_encrypted = path.name.endswith(".encrypted")
    pattern = "is encrypted" if is_encrypted else REJECTED.get(path.name)
    if pattern is not None:
        with pytest.raises(InvalidInput, match=pattern) as rejection:
            read(path)
        assert "\n" not in str(rejection.value)
        assert path.name in str(rejection.value)
        return

    rows = read(path)
    with path.open("rb") as file:
        expected = pq.read_table(file, coerce_int96_timestamp_unit="us")

    if path.name == "null_list.parquet":  # A new column without any value is left out.
        assert rows.num_columns == 0
        return
    assert (rows.num_rows, rows.num_columns) == (expected.num_rows, expected.num_columns)
    for name, column, right in zip(rows.column_names, rows.columns, expected.columns, strict=True):
        assert comparable(column) == comparable(right), name


@pytest.mark.parametrize("path", list_files("data/aes256"), ids=lambda path: path.name)
def test_encrypted_file_is_rejected_in_a_sentence(path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"is encrypted.*file="):
        read(path)
