"""Apache Hudi sees a schema that a writer brought who began first and committed last."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hudi_peer import HudiPeer
from tests.support.late_schemas import KINDS, LATE, late_table

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("kind", KINDS, ids="-".join)
@pytest.mark.parametrize("change", list(LATE))
def test_hudi_reads_what_we_read_when_the_write_returns(
    location: Path, peer: HudiPeer, kind: tuple[str, str], change: str
) -> None:
    table = late_table(location, kind, change)

    found = peer.read(location).to_pylist()

    columns = table.schema_columns()
    theirs = [{name: row[name] for name in columns} for row in found]
    assert sorted(theirs, key=lambda row: row["id"]) == table.rows()
