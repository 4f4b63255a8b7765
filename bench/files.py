"""Loading one large CSV: our reader with its types and checks, against `pyarrow.csv`, each followed
by the same write into a new table.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv as pa_csv

from bench.engine import ROOT
from bench.lines import Goal, Line
from workers.lakehouse import create_table
from workers.loading.options import load_options
from workers.loading.reader import open_rows, read_rows

_GOAL: Final = Goal(0.8)
_WEATHER: Final = ROOT / "../shared/data/weather.csv"
_DIRECT: Final = {"hoodie.write.markers.type": "direct"}


def files(folder: Path) -> Iterator[Line]:
    """Yield the load of `weather.csv`, repeated to SLUICE_BENCH_FILES_MB megabytes (1000)."""
    megabytes = int(os.environ.get("SLUICE_BENCH_FILES_MB", "1000"))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "weather.csv"
    rows = _repeat(file, megabytes << 20)
    theirs_s, theirs_read_s = _measure_load(folder, lambda: _read_by_arrow(file))
    ours_s, ours_read_s = _measure_load(
        folder, lambda: read_rows(open_rows([file], load_options({})))
    )
    details = {
        "rows": rows,
        "megabytes": megabytes,
        "read_s": round(ours_read_s, 2),
        "peer_read_s": round(theirs_read_s, 2),
    }
    ratio = theirs_s / ours_s
    yield Line("load a CSV", "pyarrow.csv + write", ours_s, theirs_s, ratio, _GOAL, details)
    file.unlink()


def _repeat(file: Path, size: int) -> int:
    """Write the hours of `weather.csv` again and again, each with a number of its own."""
    header, *lines = _WEATHER.read_text().splitlines()
    rows = 0
    with file.open("w") as out:
        out.write(f"id,{header}\n")
        while out.tell() < size:
            out.write("".join(f"{rows + at},{line}\n" for at, line in enumerate(lines)))
            rows += len(lines)
    return rows


def _read_by_arrow(file: Path) -> pa.Table:
    convert = pa_csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    table = pa_csv.read_csv(file, convert_options=convert)
    times = table.schema.get_field_index("time_hour")
    return table.set_column(times, "time_hour", table.column(times).cast(pa.timestamp("us", "UTC")))


def _measure_load(folder: Path, read: Callable[[], pa.Table]) -> tuple[float, float]:
    """Seconds of the whole load, and of its read alone."""
    location = folder / "table"
    shutil.rmtree(location, ignore_errors=True)
    began = time.perf_counter()
    rows = read()
    read_s = time.perf_counter() - began
    table = create_table(location, name="weather", schema=rows.schema, record_key=["id"])
    table.write(rows, operation="bulk_insert", options=_DIRECT)
    took_s = time.perf_counter() - began
    shutil.rmtree(location)
    return took_s, read_s
