"""What a bucket does beyond the port: many objects at once, large ones, names, settings."""

from __future__ import annotations

import os

import pytest

from bench.support.s3_server import shared_server
from tests.support.storages import bucket_storage
from workers.errors import InvalidInput, NotFound, StorageFailed
from workers.locations import bucket_place
from workers.storage import object_store
from workers.storage.object_store import ObjectStorage
from workers.storage.opener import open_storage
from workers.storage.s3_settings import s3_settings

TIMELINE_FILE = ".hoodie/timeline/20240101000000000_20240101000000001.commit"


@pytest.fixture
def bucket() -> ObjectStorage:
    return bucket_storage()


def requests() -> dict[str, int]:
    counted: dict[str, int] = shared_server().order(reset=True)["counts"]
    return counted


ODD_NAMES = "a b|a=b|a+b&c|100%|%2E|#x|~|ü/é|日本|'q'|a..b|a*?|" + "x" * 200


@pytest.mark.parametrize("name", ODD_NAMES.split("|"))
def test_odd_names_come_back_as_they_went(bucket: ObjectStorage, name: str) -> None:
    bucket.put(f"d/{name}", name.encode())

    assert bucket.read(f"d/{name}") == name.encode()
    assert [file.path for file in bucket.list_tree("d")] == [f"d/{name}"]
    bucket.delete_many([f"d/{name}"])
    assert bucket.list_tree("d") == []


def test_a_large_file_goes_in_parts_and_comes_back_in_ranges(bucket: ObjectStorage) -> None:
    content = os.urandom(20 << 20)
    requests()
    with bucket.create_data("p/large") as stream:
        stream.write(content)
    assert requests()["part"] >= 4

    with bucket.open_data("p/large") as stream:
        stream.seek(-8, 2)
        assert stream.read() == content[-8:]
        stream.seek(5 << 20)
        assert stream.read(100) == content[5 << 20 : (5 << 20) + 100]
        stream.seek((19 << 20) - 50)
        assert stream.read(100) == content[(19 << 20) - 50 : (19 << 20) + 50]
    assert requests() == {"get": 3}
    with bucket.open_data("p/large") as stream:
        assert stream.read() == content
    with pytest.raises(InvalidInput), bucket.create_data("p/large") as stream:
        stream.write(content)


def test_a_small_file_is_one_request(bucket: ObjectStorage) -> None:
    bucket.put("x", bytes(100_000))
    requests()

    with bucket.open_data("x") as stream:
        assert [len(stream.read(10)), len(stream.read())] == [10, 99_990]

    assert requests() == {"get": 1}


def test_an_empty_file_is_opened_too(bucket: ObjectStorage) -> None:
    bucket.put("x", b"")

    with bucket.open_data("x") as stream:
        assert stream.read() == b""


def test_a_file_that_is_replaced_while_it_is_read_is_an_error(bucket: ObjectStorage) -> None:
    bucket.put("x", bytes(3 << 20))
    with bucket.open_data("x") as stream:
        bucket.put("x", bytes([1]) * (3 << 20))

        with pytest.raises(StorageFailed):
            stream.read()


def test_nothing_is_left_of_a_data_file_whose_writer_failed(bucket: ObjectStorage) -> None:
    def fail_half_way() -> None:
        with bucket.create_data("p/x") as stream:
            stream.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()

    assert bucket.list_tree("") == []


@pytest.mark.slow
def test_many_files_are_deleted_and_listed_a_thousand_to_a_request(bucket: ObjectStorage) -> None:
    bucket.put_empty([f"d/{number:05d}" for number in range(1_100)])
    requests()

    assert len(bucket.list_tree("d")) == 1_100
    bucket.delete_tree("d")

    assert requests() == {"list": 4, "delete": 2}
    assert bucket.list_tree("d") == []


def test_many_directories_are_listed_at_once(bucket: ObjectStorage) -> None:
    bucket.put_empty([f"{day}/x{number}" for day in "abc" for number in range(2)])

    listings = bucket.at_once(bucket.list_files, ["a", "b", "c", "none"])

    assert [[file.path for file in listed] for listed in listings] == [
        ["a/x0", "a/x1"],
        ["b/x0", "b/x1"],
        ["c/x0", "c/x1"],
        [],
    ]
    with pytest.raises(NotFound):
        bucket.at_once(bucket.read, ["a/x0", "nowhere"])


def test_folders_of_other_tools_are_no_files(bucket: ObjectStorage) -> None:
    bucket.put("d/sub", b"")  # obstore drops the slash that such an object's name ends with.
    bucket.put("d/sub/x", b"1")

    assert [file.path for file in bucket.list_tree("d")] == ["d/sub/x"]


def test_a_timeline_file_is_read_once_while_it_stays_the_same(bucket: ObjectStorage) -> None:
    bucket.put(TIMELINE_FILE, b"whole")
    bucket.list_files(".hoodie/timeline")
    other = open_storage_again(bucket)
    requests()
    assert [bucket.read_listed(TIMELINE_FILE), other.read_listed(TIMELINE_FILE)] == [b"whole"] * 2
    assert requests() == {"get": 1}

    bucket.put(TIMELINE_FILE, b"other")
    bucket.list_files(".hoodie/timeline")
    assert other.read_listed(TIMELINE_FILE) == b"other"

    bucket.delete(TIMELINE_FILE)
    bucket.list_files(".hoodie/timeline")
    with pytest.raises(NotFound):
        other.read_listed(TIMELINE_FILE)


def open_storage_again(bucket: ObjectStorage) -> ObjectStorage:
    return bucket_storage(bucket.location.rpartition("/")[2])


def test_a_bucket_that_is_not_there_says_so() -> None:
    settings = s3_settings(shared_server().environment)
    missing = object_store.bucket_storage(bucket_place("s3://no-such-bucket/t"), settings)

    for use in (lambda: missing.put("x", b""), lambda: missing.put_if_absent("x", b"")):
        with pytest.raises(StorageFailed, match="NoSuchBucket"):
            use()


@pytest.mark.parametrize(
    "location",
    [
        "s3://lake",
        "s3:///x",
        "s3://UPPER/x",
        "s3://key:secret@lake/x",
        "s3://lake/../x",
        "s3://lake//x",
        "s3://lake/x?y",
        "gs://lake/x",
        "hdfs://namenode:8020/lake/x",
        "http://lake/x",
    ],
)
def test_other_locations_are_refused_without_a_password_in_the_text(location: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        open_storage(location)

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://store.example.com",
        "http://169.254.169.254",
        "https://169.254.1.1",
        "http://[::ffff:169.254.169.254]",
        "https://user:secret@store.example.com",
        "ftp://store.example.com",
        "https://store.example.com?x=1",
        "store.example.com",
        "https://store:port",
    ],
)
def test_an_endpoint_that_keys_must_not_go_to_is_refused(endpoint: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        s3_settings({"AWS_ENDPOINT_URL": endpoint})

    assert "secret" not in str(refused.value)


def test_settings_show_no_credentials() -> None:
    environment = shared_server().environment
    settings = s3_settings(environment)

    assert settings.allows_http
    assert environment["AWS_SECRET_ACCESS_KEY"] not in repr(settings)
    assert s3_settings({"AWS_ENDPOINT_URL": "http://s3.lan", "AWS_ALLOW_HTTP": "true"}).allows_http
    with pytest.raises(InvalidInput):
        s3_settings({"SLUICE_STORAGE_TIMEOUT_MS": "soon"})
