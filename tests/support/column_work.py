"""Counts of what costs as much as a table is wide, by the code of the engine that does it.

A list of all column names, a schema or a table with one column replaced costs a step per column.
Done once per column, it makes the work grow with the square of the columns.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

_ENGINE: Final = str(Path(__file__).parents[2] / "workers")
_PER_TABLE: Final = frozenset(
    {
        "column_names",
        "names",
        "field_names",
        "set_column",
        "append_column",
        "add_column",
        "remove_column",
        "drop_columns",
        "select",
        "rename_columns",
        "to_avro",
        "with_meta_avro",
        "record_name",
        "declared",
        "grouped",
        "groups",
        "slice_schema",
    }
)
_LOADS: Final = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL"}


@contextmanager
def column_work() -> Iterator[Counter[str]]:
    """Count, by place, what the engine does in the block that costs a step per column."""
    counts: Counter[str] = Counter()
    loads: dict[CodeType, dict[int, str]] = {}

    def per_call(frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        if (names_by_offset := loads.get(code)) is None:
            names_by_offset = loads[code] = _find_loads(code)
        if not names_by_offset:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return per_opcode

    def per_opcode(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "opcode" and (name := loads[frame.f_code].get(frame.f_lasti)) is not None:
            place = Path(frame.f_code.co_filename).relative_to(_ENGINE)
            counts[f"{place}:{frame.f_code.co_name}.{name}"] += 1
        return per_opcode

    sys.settrace(per_call)
    threading.settrace(per_call)
    try:
        yield counts
    finally:
        sys.settrace(None)
        threading.settrace(None)


def _find_loads(code: CodeType) -> dict[int, str]:
    if not code.co_filename.startswith(_ENGINE) or not _PER_TABLE.intersection(code.co_names):
        return {}
    return {
        step.offset: step.argval
        for step in dis.get_instructions(code)
        if step.opname in _LOADS and step.argval in _PER_TABLE
    }
