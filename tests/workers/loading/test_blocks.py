"""The same rows, types and counts come out of a file however it is cut into blocks, and whether a
block is decoded as values or, as the option `escape` demands, as texts.
"""

from __future__ import annotations

import gc
import io
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workers.errors import InvalidInput
from workers.loading import kept_blocks
from workers.loading import text as csv_text
from workers.loading.findings import LoadCounts
from workers.loading.options import load_options
from workers.loading.reader import InputFile, open_rows, read_rows

WHOLE = st.sampled_from(["0", "7", "-3", "12345678901234567", "", "NA", "10", "99"])
NUMBERS = st.sampled_from(
    ["0.5", "-0.5", "1", "10.357019999999999", "9007199254740993", "2.50", "NA", "-", ".5", "1e3"]
)
TIMES = st.sampled_from(
    ["2026-01-31T14:00:00Z", "2026-01-31T15:00:00.5Z", "2026-01-31 14:00:00Z", "", "NA"]
)
DATES = st.sampled_from(["2026-01-31", "2025-12-24", "", "2026-01-31T14:00:00"])
ODD = st.sampled_from(["007", "-0", "+1", " 5", "5 ", "x", "nan", "true", "00.5", "0x1F", "é", "-"])
KINDS = [WHOLE, NUMBERS, TIMES, DATES, st.one_of(WHOLE, ODD), st.one_of(NUMBERS, ODD)]
TYPES: dict[str, pa.DataType] = {
    "a": pa.int64(),
    "b": pa.float64(),
    "c": pa.timestamp("us", "UTC"),
    "d": pa.date32(),
    "e": pa.int32(),
    "f": pa.float32(),
}
TABLE = pa.schema(TYPES)


def load(text: str, block_bytes: int, table: pa.Schema | None = None, **options: str) -> Any:
    """Types, rows and counts of a load, or the refusal."""
    file = InputFile("x.csv", stream=io.BytesIO(text.encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_text, "BLOCK_BYTES", block_bytes)
        patch.setattr(kept_blocks, "MEMORY_BYTES", block_bytes)
        try:
            rows = open_rows([file], load_options(options), table)
            result = read_rows(rows)
        except InvalidInput as error:
            return str(error)
    counts = rows.counts
    assert counts.rows == result.num_rows
    facts = (dict(counts.conversions), dict(counts.nulls_by_word), counts.left_out)
    return (rows.schema, str(result.to_pylist()), facts)


ROWS = st.lists(st.tuples(*KINDS), min_size=1, max_size=40)


@example([("1", "0.5", "", "", "1", "1")] * 3 + [("007", "x", "NA", "x", "-0", "+1")] * 3, "\n")
@example([("1", "1", "", "", "1", "1")] * 3 + [("2.5", "9007199254740993", "", "", "", "")], "\n")
@given(ROWS, st.sampled_from(["\n", "\r\n"]))
def test_blocks_make_no_difference_to_new_columns(rows: list[tuple[str, ...]], end: str) -> None:
    text = end.join(["a,b,c,d,e,f", *(",".join(row) for row in rows), ""])
    expected = load(text, 8 << 20, null_words="NA,-")

    for block_bytes in (24, 150):
        assert load(text, block_bytes, null_words="NA,-") == expected


@given(ROWS, st.sampled_from(["\n", "\r\n"]))
def test_values_of_known_columns_are_those_of_their_texts(
    rows: list[tuple[str, ...]], end: str
) -> None:
    text = end.join(["a,b,c,d,e,f", *(",".join(row) for row in rows)])

    for block_bytes in (100, 8 << 20):
        expected = load(text, block_bytes, TABLE, null_words="NA,-", escape="\\")
        assert load(text, block_bytes, TABLE, null_words="NA,-") == expected


def test_times_without_a_zone_keep_their_type_over_blocks() -> None:
    body = "".join(f"{at},2026-01-{at:02d}T10:00:00\n" for at in range(1, 29))
    expected = load("id,at\n" + body, 8 << 20)

    assert expected[0].types == [pa.int64(), pa.timestamp("us")]
    assert load("id,at\n" + body, 64) == expected
    zoned = load("id,at\n" + body, 64, time_zone="Europe/Oslo")
    assert zoned == load("id,at\n" + body, 8 << 20, time_zone="Europe/Oslo")
    assert zoned[0].field("at").type == pa.timestamp("us", "UTC")


def test_refusal_of_a_late_block_names_its_line() -> None:
    body = "".join(f"{at},{at}.5\n" for at in range(40))
    types: dict[str, pa.DataType] = {"id": pa.int64(), "v": pa.float64()}
    table = pa.schema(types)

    refusal = load(f"id,v,new\n{body.replace(chr(10), f',1{chr(10)}')}41,x,2\n", 64, table)

    assert "line=42" in refusal
    assert "column=v" in refusal


def test_the_file_on_disk_is_closed_when_a_reader_is_collected_in_a_cycle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python warns of a file that it has to close itself; pytest makes an error of that."""
    monkeypatch.setattr(kept_blocks, "MEMORY_BYTES", 0)
    blocks = kept_blocks.KeptBlocks()
    blocks.add(0, pa.RecordBatch.from_pydict({"id": [1]}), 1, 1, LoadCounts())
    file: Any = blocks._file
    cycle: list[Any] = [blocks]
    cycle.append(cycle)

    del blocks, cycle
    gc.collect()

    assert file.closed
