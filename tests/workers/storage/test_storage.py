"""What every storage owes the engine, run over each one there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.storages import STORAGES
from workers.errors import InvalidInput, NotFound
from workers.storage.base import Storage
from workers.storage.local import LocalStorage

WAYS_OUT = ["../x", "a/../../x", "/etc/x", "a//b", "./a", "a/.", "a\\b", "a\x00b"]


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return STORAGES[request.param](tmp_path)


def test_what_was_put_is_read(storage: Storage) -> None:
    storage.put("a/b/c.txt", b"one")
    storage.put("a/b/c.txt", b"two")

    assert storage.read("a/b/c.txt") == b"two"


def test_absent_files_are_not_found(storage: Storage) -> None:
    for read in (storage.read, storage.read_tagged, storage.open_data):
        with pytest.raises(NotFound):
            read("a/b")
    assert storage.info("a/b") is None
    assert storage.list_files("a") == []
    assert storage.list_directories("a") == []
    assert storage.list_tree("a") == []


def test_a_file_is_no_directory(storage: Storage) -> None:
    storage.put("a", b"x")

    assert storage.list_files("a") == []
    assert storage.info("a/b") is None
    with pytest.raises(NotFound):
        storage.read("a/b")


def test_empty_files_are_made_where_there_are_none(storage: Storage) -> None:
    storage.put("a/x", b"stands")

    assert storage.put_empty(["a/w", "a/x", "b/c/y"])

    assert [storage.read(path) for path in ("a/w", "a/x", "b/c/y")] == [b"", b"stands", b""]
    assert not storage.put_empty(["a/x", "a/z"], is_exclusive=True)
    assert storage.info("a/z") is None
    assert storage.put_empty(["a/z", "a/x"], is_exclusive=True)
    assert storage.read("a/z") == b""


def test_put_if_absent_keeps_the_first(storage: Storage) -> None:
    assert storage.put_if_absent("a/x", b"first")
    assert not storage.put_if_absent("a/x", b"second")

    assert storage.read("a/x") == b"first"


def test_empty_content_is_content(storage: Storage) -> None:
    assert storage.put_if_absent("a/x", b"")
    assert not storage.put_if_absent("a/x", b"y")

    info = storage.info("a/x")
    assert info is not None
    assert info.size == 0


def test_replace_needs_the_tag_of_what_stands(storage: Storage) -> None:
    storage.put("x", b"one")
    tag = storage.read_tagged("x").tag

    renewed = storage.replace_if_match("x", b"two", tag)

    assert renewed is not None
    assert storage.read_tagged("x").tag == renewed
    assert storage.replace_if_match("x", b"three", tag) is None
    assert storage.read("x") == b"two"


def test_replace_of_nothing_is_refused(storage: Storage) -> None:
    assert storage.replace_if_match("x", b"two", "tag") is None
    assert storage.info("x") is None


def test_append_adds_at_the_end(storage: Storage) -> None:
    storage.append("a/x", b"one,")
    storage.append("a/x", b"two")

    assert storage.read("a/x") == b"one,two"


def test_data_file_is_written_once(storage: Storage) -> None:
    with storage.create_data("p/f.parquet") as stream:
        stream.write(b"rows")

    with pytest.raises(InvalidInput), storage.create_data("p/f.parquet"):
        pass

    with storage.open_data("p/f.parquet") as stream:
        stream.seek(2)
        assert stream.read() == b"ws"


def test_listing_is_sorted_and_one_level_deep(storage: Storage) -> None:
    for path in ("d/b", "d/a", "d/sub/c", "d/sub/deep/e", "other/x"):
        storage.put(path, path.encode())

    assert [info.path for info in storage.list_files("d")] == ["d/a", "d/b"]
    assert [info.size for info in storage.list_files("d")] == [3, 3]
    assert sorted(storage.list_names("d")) == ["a", "b"]
    assert storage.list_names("nowhere") == []
    assert storage.list_directories("d") == ["d/sub"]
    assert storage.list_directories("") == ["d", "other"]
    tree = [info.path for info in storage.list_tree("d")]
    assert tree == ["d/a", "d/b", "d/sub/c", "d/sub/deep/e"]


def test_deleting_what_is_absent_succeeds(storage: Storage) -> None:
    storage.put("a/x", b"1")

    for _ in range(2):
        storage.delete("a/x")
        storage.delete_tree("a")
        storage.delete("never/was")

    assert storage.list_tree("") == []


def test_delete_tree_takes_only_that_tree(storage: Storage) -> None:
    for path in ("a/x", "a/b/y", "ab/z"):
        storage.put(path, b"1")

    storage.delete_tree("a")

    assert [info.path for info in storage.list_tree("")] == ["ab/z"]


@pytest.mark.parametrize("path", WAYS_OUT)
def test_no_path_leads_out_of_the_table(storage: Storage, path: str) -> None:
    with pytest.raises(InvalidInput):
        storage.put(path, b"x")
    with pytest.raises(InvalidInput):
        storage.read(path)


# ---- promises of the directory alone


@pytest.fixture
def directory(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "table")


@pytest.mark.parametrize("path", WAYS_OUT)
def test_nothing_outside_a_directory_is_deleted(directory: LocalStorage, path: str) -> None:
    for delete in (directory.delete, directory.delete_tree):
        with pytest.raises(InvalidInput):
            delete(path)


def test_the_whole_table_is_never_deleted(directory: LocalStorage) -> None:
    directory.put("x", b"1")

    with pytest.raises(InvalidInput):
        directory.delete_tree("")

    assert directory.read("x") == b"1"


def test_temporary_and_lock_files_are_nobodys_business(
    directory: LocalStorage, tmp_path: Path
) -> None:
    directory.put("d/x", b"1")
    directory.replace_if_match("d/x", b"2", directory.read_tagged("d/x").tag)
    (tmp_path / "table" / "d" / ".sluice-tmp-abc").write_bytes(b"half")

    assert [info.path for info in directory.list_tree("")] == ["d/x"]


def test_a_timeline_file_that_is_filled_or_made_anew_is_looked_at_again(
    directory: LocalStorage,
) -> None:
    """Another engine makes a file empty and fills it then; what was seen whole is remembered."""
    timeline = Path(directory.location) / ".hoodie/timeline"
    timeline.mkdir(parents=True)
    file = timeline / "20240101000000000_20240101000000001.commit"

    def sizes() -> list[int]:
        return [one.size for one in directory.list_files(".hoodie/timeline")]

    file.touch()
    assert sizes() == [0]
    file.write_bytes(b"whole")
    assert sizes() == [5]
    assert sizes() == [5]
    other = timeline / "other"
    other.write_bytes(b"anew")
    other.replace(file)
    assert sizes() == [4]
    file.unlink()
    assert sizes() == []


COMPLETED = ".hoodie/timeline/20240101000000000_20240101000000001.commit"


def test_a_listed_file_of_the_timeline_is_read_once_in_a_process(directory: LocalStorage) -> None:
    """Gone is what the last listing did not find, whoever listed; until then it is remembered."""
    directory.put(COMPLETED, b"whole")
    other = LocalStorage(directory.location)
    assert [one.path for one in other.list_files(".hoodie/timeline")] == [COMPLETED]
    assert directory.read_listed(COMPLETED) == b"whole"

    (Path(directory.location) / COMPLETED).unlink()

    assert other.read_listed(COMPLETED) == b"whole"
    with pytest.raises(NotFound):
        other.read(COMPLETED)
    assert not directory.list_files(".hoodie/timeline")
    with pytest.raises(NotFound):
        other.read_listed(COMPLETED)


def test_a_timeline_file_made_anew_is_read_anew(directory: LocalStorage) -> None:
    directory.put(COMPLETED, b"first")
    directory.list_files(".hoodie/timeline")
    directory.read_listed(COMPLETED)

    directory.put(COMPLETED, b"other")

    directory.list_files(".hoodie/timeline")
    assert directory.read_listed(COMPLETED) == b"other"


def test_what_was_not_listed_is_not_remembered(directory: LocalStorage) -> None:
    directory.put(COMPLETED, b"whole")
    assert directory.read_listed(COMPLETED) == b"whole"

    (Path(directory.location) / COMPLETED).unlink()

    with pytest.raises(NotFound):
        directory.read_listed(COMPLETED)


def test_of_the_timeline_only_so_many_bytes_are_remembered(directory: LocalStorage) -> None:
    """Each of 64 KB at most, all of them 8 MB at most."""
    names = [f".hoodie/timeline/{n:017d}_{n + 1:017d}.commit" for n in range(200)]
    for name in names:
        directory.put(name, bytes(60_000))
    large = f".hoodie/timeline/{999:017d}_{1000:017d}.commit"
    directory.put(large, bytes(70_000))
    directory.list_files(".hoodie/timeline")

    for name in (*names, large):
        assert len(directory.read_listed(name)) > 0

    remembered = [directory._timeline.content(Path(name).name) for name in (*names, large)]
    assert remembered[-1] is None
    assert 0 < sum(len(one) for one in remembered if one) <= 8 << 20
