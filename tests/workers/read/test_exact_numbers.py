"""Numbers in predicates are compared with columns of any numeric type without rounding."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.exact_conditions import CONDITIONS, ROWS
from tests.support.honest_statements import compute
from workers import create_table, run_sql
from workers.errors import InvalidInput
from workers.lakehouse import LakehouseTable
from workers.read.exact_numbers import SIGNS, compare_exactly
from workers.read.predicate import predicate_of
from workers.read.row_groups import RowGroupPruner
from workers.read.statistics import known_by
from workers.sql.checking import ReadableTable, check_select

pytestmark = pytest.mark.sampled(every=2)

DIRECT = {"hoodie.write.markers.type": "direct"}
TYPES = dict.fromkeys(("id", "n"), "BIGINT") | {
    "i": "INT", "d": "DECIMAL(20, 2)", "w": "DECIMAL(38, 3)", "x": "DOUBLE", "f": "FLOAT",
}  # fmt: skip


def ids(rows: pa.Table) -> list[int]:
    return sorted(row["id"] for row in rows.to_pylist())


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> LakehouseTable:
    where = tmp_path_factory.mktemp("exact") / "t"
    table = create_table(where, name="t", schema=ROWS.schema, record_key=["id"])
    table.write(ROWS, options=DIRECT)
    return table


@pytest.mark.parametrize(("condition", "matching"), CONDITIONS, ids=[one for one, _ in CONDITIONS])
def test_condition_takes_the_same_rows_at_every_entry_point(
    condition: str, matching: list[int], table: LakehouseTable, tmp_path: Path
) -> None:
    query = f"SELECT id FROM t WHERE {condition}"
    checked = check_select(query, lambda _names: {"t": ReadableTable(TYPES)})
    predicate = predicate_of(condition, ROWS.schema)
    pq.write_table(ROWS, tmp_path / "rows.parquet", row_group_size=1)
    with pq.ParquetFile(tmp_path / "rows.parquet", pre_buffer=False) as file:
        pruner = RowGroupPruner(ROWS.schema, predicate.conditions)
        kept = pruner.kept(known_by(file.metadata, pruner.columns))

    assert ids(ROWS.filter(predicate.expression)) == matching
    assert ids(table.scan(where=condition).to_arrow()) == matching
    assert ids(run_sql(query, tables={"t": table})) == matching
    assert ids(compute(checked, {"t": ROWS})) == matching
    assert set(kept) >= set(matching)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_deletes_and_updates_take_exactly_the_rows_that_match(
    table_type: str, tmp_path: Path
) -> None:
    table = create_table(
        tmp_path / "t", name="t", schema=ROWS.schema, record_key=["id"], table_type=table_type
    )
    table.write(ROWS, options=DIRECT)

    table.delete(predicate="d = 12345678901234567.89", options=DIRECT)
    run_sql("UPDATE t SET i = 9 WHERE n = 9007199254740993e0", tables={"t": table}, options=DIRECT)
    run_sql("DELETE FROM t WHERE n > 9223372036854775806.5", tables={"t": table}, options=DIRECT)
    run_sql(
        """MERGE INTO t USING (SELECT 1 AS id) s ON t.id = s.id
           WHEN MATCHED AND t.d = 1234567890123456789e-2 THEN UPDATE SET f = 7""",
        tables={"t": table},
        options=DIRECT,
    )

    rows = sorted(table.read().select(["id", "i", "f"]).to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": 1, "i": 9, "f": 0.5}, {"id": 3, "i": None, "f": None}]


@pytest.mark.parametrize(
    ("where", "matching"),
    [
        ([("n", "=", 2**63)], []),
        ([("n", "!=", 2**63)], [0, 1, 2]),
        ([("n", ">", Decimal("9007199254740992.5"))], [1, 2]),
        ([("n", ">", float(2**53))], [1, 2]),
        ([("n", "=", np.int64(2**53 + 1))], [1]),
        ([("n", "=", float("nan"))], []),
        ([("n", "<", float("inf"))], [0, 1, 2]),
        ([("n", "not in", [2**53, 2**70])], [1, 2]),
        ([("d", "=", Decimal("12345678901234567.880"))], [1]),
        ([("d", "=", pa.scalar(Decimal("12345678901234567.880")))], [1]),
        ([("d", ">=", "12345678901234567.885")], [0]),
        ([("x", "=", Decimal("0.1"))], [0]),
        ([("x", "<=", Decimal(2**53) + Decimal("0.5"))], [0, 1]),
    ],
)
def test_conditions_of_values_are_exact(
    where: list[Any], matching: list[int], table: LakehouseTable
) -> None:
    assert ids(table.scan(where=where).to_arrow()) == matching


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("number", ["-1e999999999", "1e999999999", "-1e-999999999", "1e-999999999"])
def test_numbers_of_any_exponent_are_compared_at_once(sign: str, number: str) -> None:
    kinds: list[pa.DataType] = [pa.int8(), pa.uint64(), pa.decimal128(38, 9), pa.decimal256(76, 2)]
    for kind in kinds:
        compared = compare_exactly(sign, Decimal(number), kind)
        assert isinstance(compared, bool) or compared[1] in (
            0,
            Decimal("-1e-9"),
            Decimal("-.01"),
            -1,
        )


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint64(), pa.int8(), pa.int64()], ids=str)
def test_ends_of_a_range_compare_as_whole_numbers(kind: pa.DataType) -> None:
    bits = kind.bit_width
    lowest, highest = (
        (0, 2**bits - 1) if "u" in str(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    rows = pa.table({"id": [0, 1, 2], "n": pa.array([lowest, highest, None], kind)})
    for number in (lowest - 1, lowest, lowest + 1, highest - 1, highest, highest + 1):
        for sign, compare in zip(
            SIGNS,
            (int.__eq__, int.__ne__, int.__lt__, int.__le__, int.__gt__, int.__ge__),
            strict=True,
        ):
            expected = [at for at, value in enumerate((lowest, highest)) if compare(value, number)]
            assert (
                ids(rows.filter(predicate_of([("n", sign, number)], rows.schema).expression))
                == expected
            )


@pytest.mark.parametrize("condition", ["n = 1e99999999999999999999", "n = 'soon'", "id < 'a'"])
def test_what_is_no_number_is_refused(condition: str) -> None:
    with pytest.raises(InvalidInput):
        predicate_of(condition, ROWS.schema)
