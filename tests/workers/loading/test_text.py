"""CSV is read as RFC 4180 has it: exactly as Python's `csv.reader`, however a file is cut."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.errors import InvalidInput
from workers.loading import text as csv_text
from workers.loading.content import Content, InputFile
from workers.loading.options import LoadOptions
from workers.loading.text import CsvText

BLOCKS = st.sampled_from([1, 2, 3, 7, 64, 8 << 20])


def texts(data: bytes, block_bytes: int = 8 << 20) -> list[list[str]]:
    """All fields, an empty one as the empty text."""
    options = LoadOptions()
    file = InputFile("x.csv", stream=io.BytesIO(data))
    with pytest.MonkeyPatch.context() as patch, file.opened() as stored:
        patch.setattr(csv_text, "BLOCK_BYTES", block_bytes)
        opened = CsvText(Content(stored, file, options), file, options)
        rows = [opened.header]
        width = len(opened.header)
        for block in opened.blocks():
            result = block.texts(width, range(width), ()).to_pylist()
            rows += [[value or "" for value in row.values()] for row in result]
    return rows


def read_by_python(text: str) -> list[list[str]]:
    return [fields for fields in csv.reader(io.StringIO(text, newline="")) if fields]


@given(st.text(alphabet='ab,"\r\n\\é ', max_size=40), BLOCKS)
def test_any_text_is_read_as_python_reads_it_or_refused(body: str, block_bytes: int) -> None:
    expected = read_by_python(f"x,y\n{body}")

    refusal, result = "", expected
    try:
        result = texts(f"x,y\n{body}".encode(), block_bytes)
    except InvalidInput as error:
        refusal = str(error)
    is_ragged = any(len(fields) != 2 for fields in expected)

    assert result == expected
    assert bool(refusal) == is_ragged or "never closed" in refusal


FIELDS = st.text(alphabet='ab,"\r\n\\é\t ', max_size=6)


@given(st.lists(st.tuples(FIELDS, FIELDS, FIELDS), max_size=6), BLOCKS)
def test_rows_that_python_wrote_come_back(
    rows: list[tuple[str, str, str]], block_bytes: int
) -> None:
    written = io.StringIO(newline="")
    writer = csv.writer(written, quoting=csv.QUOTE_ALL)
    writer.writerows([("a", "b", "c"), *rows])

    assert texts(written.getvalue().encode(), block_bytes) == [["a", "b", "c"], *map(list, rows)]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a,b\n1,2\n\n1,2,3\n", 4, "3 fields"),
        ('a,b\n1,"x\ny"\n1\n', 4, "1 field"),
        ('a,b\n1,2\n3,"x\n4,5\n', 3, "never closed"),
    ],
)
def test_refusal_names_the_line_in_which_the_row_begins(text: str, line: int, words: str) -> None:
    with pytest.raises(InvalidInput, match=rf"{words}.*line={line}\b"):
        texts(text.encode())
