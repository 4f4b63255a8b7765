"""Tables that Apache Hudi itself wrote, from the tests of hudi-rs, beside this checkout."""

from __future__ import annotations

import zipfile
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden"
ARCHIVES = sorted(GOLDEN.glob("*.zip"))
MISSING = "tables written by Apache Hudi are not beside this checkout"


def unpacked(archive: Path, where: Path) -> Path:
    """The table's directory, without what macOS and Hadoop put beside the files."""
    with zipfile.ZipFile(archive) as zipped:
        names = [n for n in zipped.namelist() if "__MACOSX" not in n and not n.endswith(".crc")]
        zipped.extractall(where, names)
    return where / names[0].split("/")[0]


def golden_archive(name: str) -> Path:
    """The archive whose name has `name` in it, such as `mor-avro-v9_txns_simple_meta`."""
    [archive] = [one for one in ARCHIVES if name in one.name]
    return archive
