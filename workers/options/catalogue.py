"""The list of all options of Sluice, for `docs/options.md` and `manage.py options`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from workers.options.option import OptionSet
from workers.options.read_keys import OPERATION_OPTIONS, READ_OPTIONS, STREAM_OPTIONS
from workers.options.service_keys import (
    ARCHIVE_PARAMETERS,
    CLEAN_PARAMETERS,
    CLUSTERING_PARAMETERS,
    COMPACTION_PARAMETERS,
    INLINE_OPTIONS,
)
from workers.options.sink_keys import SINK_OPTIONS
from workers.options.table_keys import TABLE_OPTIONS
from workers.options.write_keys import WRITE_OPTIONS

CATALOGUE: Final[Sequence[tuple[str, OptionSet]]] = (
    ("Tables", TABLE_OPTIONS),
    ("Writes", WRITE_OPTIONS),
    ("Services after a commit", INLINE_OPTIONS),
    ("Compaction", COMPACTION_PARAMETERS),
    ("Clustering", CLUSTERING_PARAMETERS),
    ("Cleaning", CLEAN_PARAMETERS),
    ("Archiving", ARCHIVE_PARAMETERS),
    ("Sinks", SINK_OPTIONS),
    ("Reads through Spark", READ_OPTIONS),
    ("Writes through Spark", OPERATION_OPTIONS),
    ("Streams written by Spark", STREAM_OPTIONS),
)
"""By heading, in the order of the page."""

_HEAD: Final = """# Options

Printed by `manage.py options --markdown`; a test compares the two. An unknown key is rejected
with the nearest known key, before anything happens. Every value is text. *Empty* means without
a value; the meaning then describes the effect. Every key exists since version 0.1, unless its row
names another version.
"""


def markdown() -> str:
    """Return the text of `docs/options.md`."""
    sections = [_section(heading, options) for heading, options in CATALOGUE]
    return "\n".join([_HEAD.rstrip(), *sections, ""])


def lines(word: str = "") -> list[str]:
    """Return, for a terminal, the options whose key or meaning contains `word`, ignoring case."""
    word_lower = word.lower()
    return [
        f"{key}={options[key].default}\n    {options[key].meaning}\n    "
        f"{_plain(str(options[key].kind))}; set by {options.get_setter(key)}"
        for _, options in CATALOGUE
        for key in options
        if word_lower in key.lower() or word_lower in options[key].meaning.lower()
    ]


def _section(heading: str, options: OptionSet) -> str:
    rows = [
        f"\n## {heading}\n",
        f"Set by {options.setter}.\n",
        "| key | type | default | meaning |",
        "|---|---|---|---|",
    ]
    for key in options:
        option = options[key]
        notes = "" if option.setter is None else f" Set by {option.setter}."
        since = "" if option.since == "0.1" else f" Since {option.since}."
        default = f"`{option.default}`" if option.default else "*empty*"
        cells = (f"`{key}`", str(option.kind), default, option.meaning + notes + since)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def _plain(text: str) -> str:
    return text.replace("`", "")
