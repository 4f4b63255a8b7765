"""Examples of docs/loading.md give the rows next to them, and its sentences are in the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.workers.loading.corpus import plain
from workers.loading.content import InputFile
from workers.loading.options import OPTION_KEYS, load_options
from workers.loading.reader import open_rows, read_rows

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/loading.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"^(\w+=.*?)  +(\S.*)\n +(\S.*)$", re.MULTILINE)
EXAMPLES = [match.groups() for match in EXAMPLE.finditer(TEXT)]
SENTENCE = re.compile(r"^\| .* \| `([^`…]+)(?: …)?`[^|]*\|$", re.MULTILINE)


@pytest.mark.parametrize(("options", "text", "row"), EXAMPLES)
def test_example_gives_the_row_beside_it(options: str, text: str, row: str, tmp_path: Path) -> None:
    requested = dict(pair.split("=", 1) for pair in options.split())
    if not row.startswith("{"):
        assert load_options(requested)
        return
    file = tmp_path / ("dump" if "format" in requested else "rows.csv")
    lines = "".join(f"{line}\n" for line in text.split(" ⏎ "))
    file.write_bytes(lines.encode(requested.get("encoding", "utf-8")))

    rows = read_rows(open_rows([InputFile.of(file)], load_options(requested)))

    expected = {
        name: value.replace("Z", "+00:00") if name == "at" else value
        for name, value in json.loads(row).items()
    }
    assert plain(rows.to_pylist()) == [expected]


def test_every_option_has_an_example() -> None:
    named = {pair.split("=")[0] for options, _, _ in EXAMPLES for pair in options.split()}

    assert named == set(OPTION_KEYS) - {"missing"}


def test_every_sentence_of_a_refusal_is_in_the_code() -> None:
    refusals = TEXT[TEXT.index("## Parquet and Arrow") : TEXT.index("## What the summary")]
    sentences = SENTENCE.findall(refusals)
    files = [*(ROOT / "workers/loading").glob("*.py"), *(ROOT / "workers/schema").glob("*.py")]
    code = re.sub(r'"\s*f?"', "", "".join(file.read_text(encoding="utf-8") for file in files))

    assert len(sentences) > 10
    assert [sentence for sentence in sentences if sentence.rstrip(";: ") not in code] == [
        "the value does not fit int64:"
    ]
