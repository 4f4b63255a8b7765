"""`table.validate()`: what Hudi's metadata table says of the files, against what storage has."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from bench.support.golden import ARCHIVES, MISSING, golden_archive, unpacked
from tests.support.metadata_tables import keep_files
from workers.errors import MalformedTable, ServiceBusy, ServiceRefused
from workers.files.names import parse_base_file, parse_log_file
from workers.lakehouse import create_table, open_table
from workers.table_services import validation
from workers.table_services.validation import Difference, Fault, Validation

_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "city": pa.string(), "ts": pa.int64()}
SCHEMA = pa.schema(_TYPES)
golden = pytest.mark.skipif(not ARCHIVES, reason=MISSING)


def rows(*ids: str) -> pa.Table:
    cities = ("oslo", "rome")
    listed = [{"id": key, "city": cities[at % 2], "ts": at} for at, key in enumerate(ids)]
    return pa.Table.from_pylist(listed, schema=SCHEMA)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A table of two partitions, two file groups each, written twice."""
    location = tmp_path / "people"
    table = create_table(
        location,
        name="people",
        schema=SCHEMA,
        record_key=["id"],
        partition_by=["city"],
        ordering=["ts"],
        options={"hoodie.bucket.index.num.buckets": "2"},
    )
    table.write(rows("a", "b", "c", "d", "e", "f"))
    table.write(rows("a", "b"))
    return location


def stored(location: Path) -> dict[str, dict[str, int]]:
    """Bytes of the data files by partition and name."""
    partitions: dict[str, dict[str, int]] = {}
    for path in sorted(location.rglob("*")):
        place = path.relative_to(location).parent.as_posix()
        if not place.startswith(".hoodie") and (
            parse_base_file(path.name) or parse_log_file(path.name)
        ):
            partitions.setdefault("" if place == "." else place, {})[path.name] = (
                path.stat().st_size
            )
    return partitions


def test_listing_that_agrees_is_sound(written: Path) -> None:
    files = stored(written)
    keep_files(written, files)
    count = sum(map(len, files.values()))
    assert count >= 4
    assert open_table(written).validate() == Validation(2, count, ())


@pytest.mark.parametrize("fault", list(Fault))
def test_each_fault_names_its_file(fault: Fault, written: Path) -> None:
    files = stored(written)
    partition = "oslo" if "oslo" in files else "city=oslo"
    name, size = next(iter(files[partition].items()))
    path = f"{partition}/{name}"
    match fault:
        case Fault.UNLISTED:
            del files[partition][name]
            expected = Difference(fault, path, None, size)
        case Fault.SIZE:
            files[partition][name] = size - 1
            expected = Difference(fault, path, size - 1, size)
        case Fault.MISSING:
            (written / path).unlink()
            expected = Difference(fault, path, size, None)
    keep_files(written, files)
    shown = open_table(written).validate()
    assert shown.differences == (expected,)
    assert not shown.is_sound
    assert str(expected).startswith(f"{fault} {path}: listed ")


def test_files_that_do_not_count_need_not_be_listed(written: Path) -> None:
    keep_files(written, stored(written))
    [first, *_] = [path for path in written.rglob("*.parquet") if ".hoodie" not in path.parts]
    later = re.sub(r"\d{17}", "29990101000000000", first.name)
    first.with_name(later).write_bytes(first.read_bytes())
    (first.parent / "notes.txt").write_text("of a person")
    assert open_table(written).validate().is_sound


def test_what_a_clean_at_work_deletes_is_no_fault(written: Path) -> None:
    keep_files(written, stored(written))
    [first, *_] = [path for path in written.rglob("*.parquet") if ".hoodie" not in path.parts]
    first.unlink()
    (written / ".hoodie/timeline/29990101000000000.clean.requested").write_bytes(b"")
    shown = open_table(written).validate()
    assert (shown.is_sound, shown.unsettled) == (True, 1)


def test_table_without_a_metadata_table_is_told_so(written: Path) -> None:
    with pytest.raises(ServiceRefused, match="no metadata table"):
        open_table(written).validate()


def test_writers_that_never_pause_are_told_of(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_files(written, stored(written))
    table, compare = open_table(written), validation._compare
    timeline = written / ".hoodie" / "timeline"

    def disturbed(*arguments: object) -> Validation:
        count = len(list(timeline.iterdir()))
        (timeline / f"2999{count:013d}.commit.requested").write_bytes(b"")
        return compare(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(validation, "_compare", disturbed)
    with pytest.raises(ServiceBusy, match="others write"):
        table.validate()


@golden
@pytest.mark.parametrize(
    "name",
    [
        "mor-avro-v8_trips_8i3u1d",
        "mor-avro-v9_nonpartitioned_rollback",
        "mor-avro-v9_txns_simple_meta",
    ],
)
def test_hudis_own_tables_are_sound(name: str, tmp_path: Path) -> None:
    shown = open_table(unpacked(golden_archive(name), tmp_path)).validate()
    assert shown.is_sound
    assert shown.files >= 2


def _newest_log(table: Path) -> Path:
    logs = (table / ".hoodie/metadata/files").glob(".files-*.log.*")
    return max(logs, key=lambda path: (parse_log_file(path.name) or pytest.fail(path.name)).instant)


def _lose_newest_log(table: Path) -> None:
    _newest_log(table).unlink()


def _tear_newest_log(table: Path) -> None:
    path = _newest_log(table)
    path.write_bytes(path.read_bytes()[:-9])


@golden
@pytest.mark.parametrize("harm", [_lose_newest_log, _tear_newest_log])
def test_commit_that_the_metadata_table_lost_shows(
    harm: Callable[[Path], None], tmp_path: Path
) -> None:
    table = unpacked(golden_archive("mor-avro-v9_txns_simple_meta"), tmp_path)
    harm(table)
    shown = open_table(table).validate()
    assert shown.differences
    assert {one.fault for one in shown.differences} <= {Fault.UNLISTED, Fault.MISSING}


@golden
def test_damaged_base_file_is_named(tmp_path: Path) -> None:
    table = unpacked(golden_archive("mor-avro-v9_txns_simple_meta"), tmp_path)
    for path in (table / ".hoodie/metadata/files").glob("*.hfile"):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(MalformedTable, match=r"HFile .*: .*path=files/files-0000-0_"):
        open_table(table).validate()


@golden
def test_record_of_a_pending_commit_does_not_count(tmp_path: Path) -> None:
    """Hudi's writers publish in the metadata table first, and may die before the table's commit."""
    table = unpacked(golden_archive("mor-avro-v9_txns_simple_meta"), tmp_path)
    newest = (parse_log_file(_newest_log(table).name) or pytest.fail("no log")).instant
    [completed] = (table / ".hoodie/timeline").glob(f"{newest}_*")
    completed.unlink()
    files = [path for path in table.glob(f"region=*/*{newest}*") if not path.name.endswith(".crc")]
    assert files
    for path in files:
        path.unlink()
    assert open_table(table).validate().is_sound
