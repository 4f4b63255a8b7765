"""Which columns go to which stream, and what a CSV file is refused for."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from workers.errors import InvalidInput
from workers.files.rows_file import CsvFile
from workers.spark.load import StreamColumns, parse_streams

PRESENT = ["id", "origin", "temp", "dewp", "wind", "visib"]
SHARED = ["id", "origin"]


def test_star_takes_the_columns_that_no_other_stream_has() -> None:
    streams = parse_streams("a=temp, dewp; b=wind ;rest=*", present=PRESENT, shared=SHARED)

    assert streams == [
        StreamColumns("a", ("temp", "dewp")),
        StreamColumns("b", ("wind",)),
        StreamColumns("rest", ("visib",)),
    ]
    assert parse_streams("", present=PRESENT, shared=SHARED) == []


@pytest.mark.parametrize("text", ["a=temp;b=temp", "a=temp;a=wind", "a=id", "a=snow"])
def test_streams_that_overlap_or_name_strange_columns_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_streams(text, present=PRESENT, shared=SHARED)


def test_csv_is_typed_with_missing_values_and_a_made_key(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("origin,hour,temp,note\nEWR,1,1.5,NA\nJFK,2,NA,NA\n")

    table = CsvFile(str(path), key="id", key_from=("origin", "hour")).read()

    assert table.to_pylist() == [
        {"id": "EWR|1", "origin": "EWR", "hour": 1, "temp": 1.5, "note": None},
        {"id": "JFK|2", "origin": "JFK", "hour": 2, "temp": None, "note": None},
    ]
    assert table.schema.field("note").type == pa.string()


@pytest.mark.parametrize("text", ["a,b\n1\n", 'a b,"c"\n1,2\n', "", "a,\n1,2\n"])
def test_file_that_is_no_plain_csv_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)

    with pytest.raises(InvalidInput):
        CsvFile(str(path)).read()
