"""Timeline contents: one record, the same bytes for the same record, and no surprise on damage."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.files.conftest import OpenGolden
from workers.errors import MalformedTable
from workers.files.avro_container import decode_record, encode_record

SCHEMA = {
    "type": "record",
    "name": "Stat",
    "namespace": "org.example",
    "fields": [
        {"name": "path", "type": ["null", "string"], "default": None},
        {"name": "sizes", "type": {"type": "map", "values": "long"}, "default": {}},
    ],
}
RECORD = {"path": "a/b", "sizes": {"x": 1}}


def test_a_record_comes_back_and_nothing_handed_in_is_changed() -> None:
    schema, record = copy.deepcopy(SCHEMA), copy.deepcopy(RECORD)

    content = encode_record(schema, record)

    assert decode_record(content) == RECORD
    assert (schema, record) == (SCHEMA, RECORD)


def test_the_same_record_gives_the_same_bytes_so_its_hash_identifies_it() -> None:
    assert encode_record(SCHEMA, RECORD) == encode_record(SCHEMA, dict(RECORD))
    assert encode_record(SCHEMA, RECORD) != encode_record(SCHEMA, {**RECORD, "path": None})


@pytest.mark.parametrize("content", [b"", b"Obj\x01", b"{}", encode_record(SCHEMA, RECORD)[:-1]])
def test_a_torn_or_empty_file_is_malformed(content: bytes) -> None:
    with pytest.raises(MalformedTable):
        decode_record(content)


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(0, 255))
def test_one_changed_byte_is_read_or_refused_and_never_anything_else(at: int, byte: int) -> None:
    content = bytearray(encode_record(SCHEMA, RECORD))
    content[at % len(content)] = byte

    try:
        record = decode_record(bytes(content))
    except MalformedTable:
        return

    assert isinstance(record, dict)


def test_the_commits_that_hudi_wrote_are_read(golden: OpenGolden) -> None:
    storage = golden("cow-v9_txns_simple_nometa")
    names = [info for info in storage.list_files(".hoodie/timeline") if "_" in info.name]

    kinds = {decode_record(storage.read(info.path)).get("operationType") for info in names}

    assert len(names) == 12
    assert kinds >= {"INSERT", "CLUSTER", "INSERT_OVERWRITE"}
