"""Who gets into the marker server and where it lets them: tokens, and attacks on paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers.markers.harness import (
    INSTANT,
    LATER,
    SECRET,
    ServerProcess,
    directory_of,
    new_table,
)
from workers.markers import mint_admin_token, mint_token
from workers.markers.client import BASE_PATH
from workers.storage.local import LocalStorage

A = "p=1/a.parquet.marker.CREATE"


def token(storage: LocalStorage, instant: str = INSTANT) -> str:
    return mint_token(SECRET, storage.location, instant)


def test_a_request_without_a_token_is_not_let_in(
    server: ServerProcess, storage: LocalStorage
) -> None:
    query = {"markerdirpath": directory_of(storage), "markername": A}

    for method, path in (("POST", "/create"), ("GET", "/all"), ("POST", "/dir/delete")):
        assert server.ask(method, f"{BASE_PATH}{path}", query=query).status == 401
    for method, path in (("GET", "/metrics"), ("POST", "/drain")):
        assert server.ask(method, path).status == 401


def test_a_token_for_something_else_opens_nothing(
    server: ServerProcess, storage: LocalStorage, root: Path
) -> None:
    other = new_table(root, "other-table")
    query = {"markerdirpath": directory_of(storage), "markername": A}

    for wrong in (
        token(other),
        token(storage, LATER),
        mint_token("another secret", storage.location, INSTANT),
        mint_admin_token(SECRET),
        "ø",
    ):
        assert server.ask("POST", f"{BASE_PATH}/create", query=query, token=wrong).status == 403
    for path in ("/metrics", "/drain"):
        method = "GET" if path == "/metrics" else "POST"
        assert server.ask(method, path, token=token(storage)).status == 403

    assert storage.list_tree(".hoodie/.temp") == []


@pytest.mark.parametrize(
    "name", ["../x", "/x", "a/../../x", "%2e%2e/x", "a\\x", "a\nb", ".hoodie/x"]
)
def test_a_marker_that_leaves_its_table_is_refused(
    server: ServerProcess, storage: LocalStorage, name: str
) -> None:
    answer = server.create(storage, f"{name}.marker.CREATE")

    assert answer.status == 400
    assert storage.list_tree(".hoodie/.temp") == []


def test_no_table_outside_the_roots_is_touched(
    server: ServerProcess, storage: LocalStorage, root: Path, tmp_path: Path
) -> None:
    outside = new_table(tmp_path, "outside")
    sibling = new_table(root.parent, f"{root.name}10")
    (root / "link").symlink_to(outside.location)
    linked = LocalStorage(root / "link")

    for foreign in (outside, sibling, linked, LocalStorage(root.parent)):
        answer = server.create(foreign, A)
        assert answer.status == 403, foreign.location
    assert server.create(LocalStorage(root / "nowhere"), A).status == 404

    assert outside.list_tree(".hoodie/.temp") == []
    assert sibling.list_tree(".hoodie/.temp") == []


def test_a_marker_directory_that_is_a_link_is_not_followed(
    server: ServerProcess, storage: LocalStorage, tmp_path: Path
) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    temporary = Path(storage.location) / ".hoodie" / ".temp"
    temporary.mkdir()
    (temporary / INSTANT).symlink_to(target)

    answer = server.create(storage, A)

    assert answer.status == 400
    assert list(target.iterdir()) == []


def test_two_spellings_of_one_table_are_one_directory(
    server: ServerProcess, storage: LocalStorage, root: Path
) -> None:
    link = root / f"same-{Path(storage.location).name}"
    link.symlink_to(storage.location)

    first = server.create(storage, A)
    second = server.create(LocalStorage(link), A)

    assert (first.result, second.result) == ("created", "exists")


def test_a_large_body_and_nonsense_are_refused(
    server: ServerProcess, storage: LocalStorage
) -> None:
    query = {"markerdirpath": directory_of(storage)}
    path = f"{BASE_PATH}/create-all"

    too_large = server.ask("POST", path, query=query, token=token(storage), body=b"x" * (9 << 20))
    too_deep = server.ask("POST", path, query=query, token=token(storage), body="[" * 100_000)
    not_utf8 = server.ask("POST", path, query=query, token=token(storage), body=b"\xff\xfe\n")
    bad_id = server.create(storage, A, request_id="a b")

    assert too_large.status == 413
    assert too_deep.status == 400
    assert not_utf8.status == 400
    assert bad_id.status == 400
    assert server.ask("GET", "/nothing").status == 404
    assert server.ask("GET", f"{BASE_PATH}/create").status == 405


def test_the_secret_is_neither_in_the_arguments_nor_in_the_log(server: ServerProcess) -> None:
    arguments = Path(f"/proc/{server.pid}/cmdline").read_text()

    assert SECRET not in arguments
    assert SECRET not in server.log
