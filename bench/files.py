"""Loading one large CSV: our reader with its types and checks, against `pyarrow.csv`, each followed
by the same write into a new table. Then the load within a limit of memory, in a process of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.csv as pa_csv

from bench.engine import ROOT, JobFailed, driver_environment
from bench.lines import Goal, Line
from workers.lakehouse import create_table
from workers.loading.options import load_options
from workers.loading.reader import open_rows, read_rows

_GOAL: Final = Goal(0.8)
_MEMORY: Final = Goal(1000, " MB", is_least=False)
_WEATHER: Final = ROOT / "../shared/data/weather.csv"
_DIRECT: Final = {"hoodie.write.markers.type": "direct"}


def files(folder: Path) -> Iterator[Line]:
    """Yield the load of `weather.csv`, repeated to SLUICE_BENCH_FILES_MB megabytes (1000)."""
    megabytes = int(os.environ.get("SLUICE_BENCH_FILES_MB", "1000"))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "weather.csv"
    rows = _repeat(file, megabytes << 20)
    theirs = _measure_load(folder, lambda: _read_by_arrow(file))
    ours = _measure_load(folder, lambda: read_rows(open_rows([file], load_options({}))))
    details = {
        "rows": rows,
        "megabytes": megabytes,
        "ours": ours._asdict(),
        "peer": theirs._asdict(),
        "cpu_ratio": round(theirs.cpu_s / ours.cpu_s, 2),
    }
    ratio = theirs.load_s / ours.load_s
    name = "load a CSV"
    yield Line(name, "pyarrow.csv + write", ours.load_s, theirs.load_s, ratio, _GOAL, details)
    yield _measure_memory(folder, file, megabytes)
    file.unlink()


def _measure_memory(folder: Path, file: Path, megabytes: int) -> Line:
    """Load the file in a process that holds 256 MB of rows at once."""
    table = folder / "bounded"
    shutil.rmtree(table, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-m", "bench.drivers.load", str(file), str(table), "256"],
        env=driver_environment(),
        stdout=subprocess.PIPE,
        check=False,
        text=True,
    )
    shutil.rmtree(table, ignore_errors=True)
    if done.returncode:
        raise JobFailed("the load within a limit of memory failed")
    answer = json.loads(done.stdout)
    name = f"load a CSV of {megabytes} MB, peak memory"
    return Line(name, "(a limit)", answer["seconds"], None, answer["peak_mb"], _MEMORY, answer)


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


class _Times(NamedTuple):
    load_s: float
    read_s: float
    cpu_s: float
    """Processor time of the whole load, which other work on the machine changes least."""
    read_cpu_s: float


def _measure_load(folder: Path, read: Callable[[], pa.Table]) -> _Times:
    """Measure a load and its read alone."""
    location = folder / "table"
    shutil.rmtree(location, ignore_errors=True)
    began, cpu_began = time.perf_counter(), time.process_time()
    rows = read()
    read_s, read_cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    table = create_table(location, name="weather", schema=rows.schema, record_key=["id"])
    table.write(rows, operation="bulk_insert", options=_DIRECT)
    load_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    shutil.rmtree(location)
    return _Times(*(round(seconds, 2) for seconds in (load_s, read_s, cpu_s, read_cpu_s)))
