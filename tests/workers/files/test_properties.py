"""hoodie.properties: Java's text both ways, and no moment without one whole file."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.files.conftest import OpenGolden
from workers.errors import MalformedTable, TableNotFound
from workers.files.properties import (
    format_properties,
    load_properties,
    parse_properties,
    store_properties,
    table_checksum,
)
from workers.storage.local import LocalStorage
from workers.table_layout import PROPERTIES, PROPERTIES_BACKUP

TABLE = {"hoodie.table.name": "t", "hoodie.table.version": "9"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("  a = b ", {"a": "b "}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("#c\n!d\n\na=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a\\:b\\==c\\:d\\=e=f", {"a:b=": "c:d=e=f"}),
        ("a=\\u00fc\\t\\n\\z", {"a": "ü\t\nz"}),
        ("a=\\uD83D\\uDE00", {"a": "😀"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text.encode("latin-1")) == expected


def test_a_broken_escape_is_an_error_and_not_a_guess() -> None:
    with pytest.raises(MalformedTable):
        parse_properties(b"a=\\u12G4")


PLAIN_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@settings(deadline=None)
@given(st.dictionaries(PLAIN_TEXT.filter(bool), PLAIN_TEXT))
def test_whatever_is_written_is_read_again(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties


def test_the_checksum_is_the_one_of_a_table_that_hudi_created() -> None:
    assert table_checksum(None, "t") == 498511606
    assert table_checksum("default", "v6_trips_8i3d") == 3180720914


def test_storing_replaces_the_file_and_leaves_no_backup(storage: LocalStorage) -> None:
    store_properties(storage, TABLE)
    store_properties(storage, {**TABLE, "hoodie.bucket.index.num.buckets": "8"})

    properties = load_properties(storage)

    assert properties["hoodie.bucket.index.num.buckets"] == "8"
    assert properties["hoodie.table.checksum"] == "498511606"
    assert storage.info(PROPERTIES_BACKUP.path) is None


@pytest.mark.parametrize("torn", [None, b"", b"hoodie.table.na", b"hoodie.table.name=t\nhoodie.ta"])
def test_a_writer_died_while_replacing_and_the_backup_is_read(
    storage: LocalStorage, torn: bytes | None
) -> None:
    """Bug A9: whichever step it died at, a whole file is found."""
    store_properties(storage, TABLE)
    whole = storage.read(PROPERTIES.path)
    storage.put(PROPERTIES_BACKUP.path, whole)
    storage.delete(PROPERTIES.path)
    if torn is not None:
        storage.put(PROPERTIES.path, torn)

    assert load_properties(storage)["hoodie.table.version"] == "9"


def test_a_wrong_checksum_is_refused_as_hudi_refuses_it(storage: LocalStorage) -> None:
    storage.put(PROPERTIES.path, b"hoodie.table.name=t\nhoodie.table.checksum=1\n")

    with pytest.raises(MalformedTable, match="checksum"):
        load_properties(storage)


def test_a_missing_checksum_is_accepted_as_hudi_accepts_it(storage: LocalStorage) -> None:
    storage.put(PROPERTIES.path, b"hoodie.table.name=t\n")

    assert load_properties(storage) == {"hoodie.table.name": "t"}


def test_a_directory_without_properties_is_no_table(storage: LocalStorage) -> None:
    with pytest.raises(TableNotFound):
        load_properties(storage)


@pytest.mark.parametrize(
    ("table", "version", "ordering"),
    [
        ("mor-avro-v6_trips", "6", "hoodie.table.precombine.field=ts"),
        ("mor-avro-v8_trips", "8", "hoodie.table.precombine.field=ts"),
        ("cow-v9_txns_simple_nometa", "9", "hoodie.table.ordering.fields=txn_ts"),
        ("mor-avro-v9_txns_simple_meta", "9", "hoodie.table.ordering.fields=txn_ts"),
    ],
)
def test_the_properties_that_hudi_wrote_are_whole_and_survive_a_rewrite(
    golden: OpenGolden, table: str, version: str, ordering: str
) -> None:
    storage = golden(table)

    properties = load_properties(storage)
    store_properties(storage, properties)

    key, value = ordering.split("=")
    assert properties["hoodie.table.version"] == version
    assert properties[key] == value
    assert properties["hoodie.table.create.schema"].startswith('{"type":"record"')
    assert load_properties(storage) == properties


def test_checksum_that_hadoop_put_beside_the_file_goes_when_it_is_replaced(
    storage: LocalStorage,
) -> None:
    """Hudi does not read a file that is not what its `.crc` says."""
    store_properties(storage, {"hoodie.table.name": "t"})
    beside = ".hoodie/.hoodie.properties.crc"
    storage.put(beside, b"crc")

    store_properties(storage, {"hoodie.table.name": "t", "hoodie.table.version": "9"})

    assert storage.info(beside) is None
