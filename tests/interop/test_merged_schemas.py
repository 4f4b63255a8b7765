"""Apache Hudi reads files of two writers with schemas of their own under the merge of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hudi_peer import HudiPeer
from tests.support.merged_schemas import KINDS, PAIRS, merged_table

pytestmark = pytest.mark.interop


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("kind", KINDS, ids="-".join)
@pytest.mark.parametrize("pair", list(PAIRS))
def test_hudi_reads_what_we_read(
    location: Path, peer: HudiPeer, kind: tuple[str, str], pair: str
) -> None:
    table = merged_table(location, kind, pair)

    read_rows = peer.read(location).to_pylist()

    columns = table.schema_columns()
    theirs = [{name: row[name] for name in columns} for row in read_rows]
    assert sorted(theirs, key=lambda row: row["id"]) == table.rows()
