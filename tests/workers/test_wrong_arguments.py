"""Arguments of the wrong kind, to every method of a table: refused or taken, no instant waits for
somebody after them, and no row is lost.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable, create_table

ROWS = pa.table({"id": [1, 2], "value": ["a", "b"]})
WRONG: tuple[Any, ...] = ({}, {"x": "y"}, 5, "nothing", b"bytes", object(), ["a", 1], [], True)
METHODS = sorted(
    name
    for name, method in inspect.getmembers(LakehouseTable, inspect.isfunction)
    if not name.startswith("_")
)


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakehouseTable:
    made = create_table(
        tmp_path / "table",
        name="asked",
        schema=ROWS.schema,
        record_key=["id"],
        table_type=request.param,
    )
    made.write(ROWS)
    made.write(ROWS)  # Something to compact and to sort.
    return made


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("method", METHODS)
def test_wrong_argument_leaves_no_instant_behind(table: LakehouseTable, method: str) -> None:
    for arguments, options in calls(getattr(table, method)):
        refused: Exception | None = None
        try:
            getattr(table, method)(*arguments, **options)
        except Exception as error:  # noqa: BLE001 # Whatever it is: what stays behind counts.
            refused = error

        pending = list(table.table.timeline().pending())
        assert pending == [], (method, arguments, options, refused)
    assert table.read().sort_by("id").equals(ROWS), method


@pytest.mark.parametrize("service", ["compact", "cluster"])
def test_what_is_no_spark_session_is_refused_by_name(table: LakehouseTable, service: str) -> None:
    with pytest.raises(InvalidInput, match=r"not a Spark session; .*parameters=\{\.\.\.\}"):
        getattr(table, service)(spark={"schedule_only": "false"})


def calls(method: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Each parameter wrong, by name; those that have to be there, in their places."""
    parameters = inspect.signature(method).parameters.values()
    needed = [one for one in parameters if one.default is one.empty]
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        needed = needed[:1]
    optional = [one.name for one in parameters if one.default is not one.empty]
    if needed:
        yield from (((wrong, *({} for _ in needed[1:])), {}) for wrong in WRONG)
    right = [ROWS if one.name == "data" else "20240101000000000" for one in needed]
    for name, wrong in itertools.product(optional, WRONG):
        if name != "schedule" or wrong is not True:
            yield tuple(right), {name: wrong}
