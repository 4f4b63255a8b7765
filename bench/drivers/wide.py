"""Wide tables and the join that they spare, by one Spark session that takes turns."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from bench.drivers.queries import sums_of
from bench.drivers.serving import Job, serve
from bench.drivers.sessions import spark_session
from bench.drivers.streams import compact, created, written
from bench.wide_rows import STREAMS, Versions, all_streams, newest_versions, partial_update
from workers.lakehouse import open_table

_FILES = 8


class Wide:
    def __init__(self) -> None:
        self._spark = spark_session({})

    def prepare(self, folder: str, keys: int, rounds: int, share: float) -> None:
        """`compacted`, `logs` and the three plain tables `plain-<stream>` in `folder`."""
        shutil.rmtree(folder, ignore_errors=True)
        logs = f"{folder}/logs"
        table = created(logs, buckets=_FILES)
        batches = {name: [Versions.drawn(name, 0, keys=keys, count=keys)] for name in STREAMS}
        for name in STREAMS:
            written(table, name, batches[name][0].table(name))
        compact(logs)
        for number in range(1, rounds + 1):
            for name in STREAMS:
                versions = Versions.drawn(name, number, keys=keys, count=int(keys * share))
                written(table, name, versions.table(name))
                batches[name].append(versions)
        shutil.copytree(logs, f"{folder}/compacted")
        compact(f"{folder}/compacted")
        for name in STREAMS:
            _write_plain(newest_versions(name, batches[name], keys), Path(folder, f"plain-{name}"))

    def read(self, folder: str, table: str, columns: list[str] | None) -> None:
        _drain(self._ours(folder, table, columns))

    def join(self, folder: str, columns: list[str] | None) -> None:
        _drain(self._joined(folder, columns))

    def contents(self, folder: str, columns: list[str] | None) -> dict[str, list[str]]:
        """Rows and a sum of checksums of each side."""
        return {
            "join": _content(self._joined(folder, columns)),
            **{
                table: _content(self._ours(folder, table, columns))
                for table in ("compacted", "logs")
            },
        }

    def partial_draw(self, folder: str, keys: int, rounds: int, share: float) -> None:
        """Whole rows in `rows`, each round's partial ones in `update-<number>`."""
        shutil.rmtree(folder, ignore_errors=True)
        _write_plain(all_streams(keys), Path(folder, "rows"))
        for number in range(rounds):
            stream = STREAMS[number % len(STREAMS)]
            rows = partial_update(stream, number, keys=keys, share=share)
            _write_plain(rows, Path(folder, f"update-{number}"))

    def partial_load(self, folder: str) -> None:
        table = created(f"{folder}/ours", buckets=_FILES)
        written(table, "base", self._spark.read.parquet(f"{folder}/rows"))
        compact(f"{folder}/ours")

    def partial_update(self, folder: str, number: int) -> None:
        rows = self._spark.read.parquet(f"{folder}/update-{number}")
        written(open_table(f"{folder}/ours"), STREAMS[number % len(STREAMS)], rows)

    def partial_content(self, folder: str) -> list[float]:
        return sums_of(open_table(f"{folder}/ours").read(self._spark))

    def _ours(self, folder: str, table: str, columns: list[str] | None) -> DataFrame:
        frame: DataFrame = open_table(f"{folder}/{table}").read(self._spark, columns=columns)
        return frame

    def _joined(self, folder: str, columns: list[str] | None) -> DataFrame:
        first, *others = [self._spark.read.parquet(f"{folder}/plain-{name}") for name in STREAMS]
        for other in others:
            first = first.join(other, "key", "full_outer")
        return first if columns is None else first.select(*columns)


def _drain(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _content(frame: DataFrame) -> list[str]:
    names = ", ".join(sorted(frame.columns))
    checksums = frame.selectExpr(
        "count(*) AS n", f"sum(cast(xxhash64({names}) AS decimal(38))) AS c"
    )
    return [str(one) for one in checksums.collect()[0]]


def _write_plain(rows: pa.Table, folder: Path) -> None:
    folder.mkdir(parents=True)
    step = -(-rows.num_rows // _FILES)
    for part in range(_FILES):
        pq.write_table(
            rows.slice(part * step, step),
            folder / f"{part}.parquet",
            compression="zstd",
            compression_level=1,
        )


def jobs() -> dict[str, Job]:
    wide = Wide()
    return {
        "prepare": wide.prepare,
        "read": wide.read,
        "join": wide.join,
        "contents": wide.contents,
        "partial_draw": wide.partial_draw,
        "partial_load": wide.partial_load,
        "partial_update": wide.partial_update,
        "partial_content": wide.partial_content,
    }


if __name__ == "__main__":
    serve(jobs)
