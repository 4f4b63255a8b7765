"""Which columns go to which stream, and what a CSV file is refused for."""

from __future__ import annotations

import pytest

from workers.errors import InvalidInput
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
