"""Options of the data source: Hudi's names, and refusals that name what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from workers.errors import InvalidInput
from workers.read.request import EARLIEST, Query, ReadRequest
from workers.spark.datasource.options import location, request_of, write_options_of

INSTANT = "20260131120000007"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ReadRequest()),
        ({"columns": "a, b"}, ReadRequest(columns=("a", "b"))),
        ({"query": "read_optimized"}, ReadRequest(Query.READ_OPTIMIZED)),
        ({"as.of.instant": INSTANT}, ReadRequest(as_of=INSTANT)),
        ({"sluice.writer.name": "of a view's inserts"}, ReadRequest()),
        ({"hoodie.datasource.query.type": "incremental"}, ReadRequest(Query.INCREMENTAL)),
        (
            {
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.query.incremental.format": "cdc",
                "hoodie.datasource.read.begin.instanttime": "000",
                "hoodie.datasource.read.end.instanttime": INSTANT,
                "hoodie.read.columns": "op, after",
            },
            ReadRequest(Query.CDC, None, EARLIEST, INSTANT, ("op", "after")),
        ),
    ],
)
def test_read_options_make_a_request(options: dict[str, str], expected: ReadRequest) -> None:
    assert request_of({"path": "/t", **options}) == expected


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"as.of.instnt": INSTANT}, "unknown read option"),
        ({"query": "all"}, "unknown query"),
        ({"hoodie.datasource.query.incremental.format": "cdc"}, "incremental queries"),
        ({"columns": "a", "hoodie.read.columns": "b"}, "two options of one meaning"),
    ],
)
def test_wrong_read_options_are_refused(options: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        request_of(options)


def test_write_options_say_the_operation() -> None:
    writer = {"sluice.writer.name": "w"}

    assert write_options_of({"path": "/t", **writer}, overwrite=False) == ("upsert", writer)
    assert write_options_of({}, overwrite=True) == ("insert_overwrite_table", {})
    with pytest.raises(InvalidInput, match="unknown write option"):
        write_options_of({"sluice.writer.nme": "w"}, overwrite=False)
    with pytest.raises(InvalidInput, match=r"unknown write option: key=where is=a read option"):
        write_options_of({"where": "n = 1"}, overwrite=False)
    with pytest.raises(InvalidInput, match="mode overwrite replaces"):
        write_options_of({"hoodie.datasource.write.operation": "delete"}, overwrite=True)
    with pytest.raises(InvalidInput, match="needs the path"):
        location({})
