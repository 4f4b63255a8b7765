"""Tables that Apache Hudi itself wrote: read as hudi-rs reads them, or refused with the reason."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.referee import assert_referee_agrees
from workers.errors import UnsupportedTable
from workers.lakehouse import open_table

GOLDEN = Path(__file__).resolve().parents[4] / "shared" / "golden"
ARCHIVES = sorted(GOLDEN.glob("*.zip"))


pytestmark = pytest.mark.skipif(
    not ARCHIVES, reason="tables of Apache Hudi are not beside this checkout"
)


def unpacked(archive: Path, where: Path) -> Path:
    with zipfile.ZipFile(archive) as zipped:
        names = [name for name in zipped.namelist() if "__MACOSX" not in name]
        zipped.extractall(where, names)
    return where / names[0].split("/")[0]


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.stem)
def test_table_of_apache_hudi_is_read_as_the_referee_reads_it(
    archive: Path, tmp_path: Path
) -> None:
    assert_referee_agrees(unpacked(archive, tmp_path), is_ours=False)


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.stem)
def test_table_of_apache_hudi_is_never_written_without_knowing_its_rules(
    archive: Path, tmp_path: Path
) -> None:
    location = unpacked(archive, tmp_path)
    table = open_table(location)
    schema = table.schema() or pa.schema({"id": pa.string()})
    before = sorted(path.relative_to(location) for path in location.rglob("*"))

    with pytest.raises(UnsupportedTable):
        table.write(schema.empty_table())

    assert sorted(path.relative_to(location) for path in location.rglob("*")) == before


def test_window_that_begins_in_an_archive_that_is_not_read_is_refused(tmp_path: Path) -> None:
    [archive] = [one for one in ARCHIVES if "cow-v6_simplekeygen" in one.name]
    location = unpacked(archive, tmp_path)
    table = open_table(location)
    everything = table.read(since="earliest").num_rows
    first = table.timeline()[0].requested_at

    archived = location / ".hoodie" / "archived"
    archived.mkdir(exist_ok=True)
    (archived / ".commits_.archive.1_1-0-1").write_bytes(b"#HUDI#")

    with pytest.raises(UnsupportedTable, match="archived timeline"):
        table.read(since="earliest")
    assert 0 < table.read(since=first).num_rows <= everything
