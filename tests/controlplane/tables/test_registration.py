"""Tables lie under configured roots, whatever their path is written with, and never overlap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest
from controlplane.tables.actions import do_register_table
from controlplane.tables.listing import Wanted, tables_page
from controlplane.tables.locations import overlap
from controlplane.tables.models import Table


def test_a_location_is_stored_resolved_and_without_a_trailing_slash(
    root: Path, admin: User
) -> None:
    (root / "real").mkdir()
    (root / "link").symlink_to(root / "real")

    table = do_register_table(location=f"{root}/link/", slug="t1", by=admin)

    assert table.location == str(root / "real")


@pytest.mark.parametrize(
    "location",
    [
        "relative/path",
        "/etc/passwd",
        "{root}",
        "{root}/",
        "{root}/../other",
        "{root}/a/../../other",
        "{root}/a%2e%2e/b",
        "{root}/a\x00b",
        "{root}/a*",
        "{root}/a'b",
        '{root}/a"b',
        "{root}/a\\b",
        "{root}-evil/t",
        "s3://bucket/t",
        "file:///etc",
    ],
)
def test_anything_outside_the_roots_or_the_grammar_is_refused(
    root: Path, admin: User, location: str
) -> None:
    with pytest.raises(InvalidRequest):
        do_register_table(location=location.format(root=root), slug="t1", by=admin)

    assert not Table.objects.exists()


def test_a_link_that_leads_out_of_the_root_is_refused(
    root: Path, admin: User, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (root / "link").symlink_to(tmp_path / "outside")

    with pytest.raises(InvalidRequest):
        do_register_table(location=f"{root}/link", slug="t1", by=admin)


@pytest.mark.parametrize(
    ("first", "second", "overlapping"),
    [
        ("t1", "t1", True),
        ("t1", "t1/inner", True),
        ("t1/inner", "t1", True),
        ("t1", "t10", False),
        ("t10", "t1", False),
        ("a/b", "a/c", False),
    ],
)
def test_tables_do_not_nest(
    root: Path, admin: User, first: str, second: str, overlapping: bool
) -> None:
    do_register_table(location=f"{root}/{first}", slug="first", by=admin)

    if overlapping:
        with pytest.raises(InvalidRequest):
            do_register_table(location=f"{root}/{second}", slug="second", by=admin)
    else:
        do_register_table(location=f"{root}/{second}", slug="second", by=admin)
    assert overlap(f"{root}/{first}", f"{root}/{second}") is overlapping


@pytest.mark.parametrize("slug", ["", "Big", "-a", "a-", "a/b", "a b", "ä", "x" * 65])
def test_a_slug_outside_the_grammar_is_refused(root: Path, admin: User, slug: str) -> None:
    with pytest.raises(InvalidRequest):
        do_register_table(location=f"{root}/t", slug=slug, by=admin)


@pytest.mark.django_db
def test_a_table_may_lie_under_a_bucket_root_and_nowhere_else_in_buckets(
    admin: User, settings: Any
) -> None:
    settings.SLUICE_TABLE_ROOTS = ("s3://lake/tables",)

    table = do_register_table(location="s3://lake/tables/trips/", slug="trips", by=admin)

    assert table.location == "s3://lake/tables/trips"
    for elsewhere in (
        "s3://lake/tables",
        "s3://lake/tables-of-others/t",
        "s3://other/tables/t",
        "s3://lake/tables/../t",
        "s3://lake/tables/trips/inner",
        "s3://key:secret@lake/tables/t",
        "/lake/tables/t",
    ):
        with pytest.raises(InvalidRequest) as refused:
            do_register_table(location=elsewhere, slug="other", by=admin)
        assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        "trips\u202egnp",
        "tri\u200bps",
        "\ufefftrips",
        "trips\u2066",
        "tri\u00adps",
        "a\u00a0b",
        "trips\u2028",
        "\uff54rips",
        "a\uff0fb",
        "tr\u0456ps",
        "\u0441\u043e\u0440\u0435",
        "trips_\u03bf",
        "trips\u0661",
        "\U0001d42drips",
        "trips\ue000",
    ],
    ids=ascii,
)
def test_a_location_that_reads_as_another_is_refused_and_the_character_is_named(
    root: Path, admin: User, name: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        do_register_table(location=f"{root}/{name}", slug="t1", by=admin)
    (root / name.replace("/", "")).mkdir()
    (root / "plain").symlink_to(root / name)
    with pytest.raises(InvalidRequest):
        do_register_table(location=f"{root}/plain", slug="t1", by=admin)

    assert str(refused.value).isascii()
    assert str(refused.value.values["character"]).startswith("U+")


@pytest.mark.parametrize(
    "name", ["reisen_2024", "поездки_v2", "Ausflüge", "旅行データ", "ταξίδια", "a b"]
)
def test_words_of_any_one_alphabet_are_locations(root: Path, admin: User, name: str) -> None:
    table = do_register_table(location=f"{root}/{name}", slug="t1", by=admin)

    assert table.location == f"{root}/{name}"


@pytest.mark.parametrize("namespace", ["", "Sales", "a b", "-a", "../x", "a" * 65])
def test_a_namespace_of_another_grammar_is_refused(root: Path, admin: User, namespace: str) -> None:
    with pytest.raises(InvalidRequest, match="namespace"):
        do_register_table(location=f"{root}/t1", slug="t1", namespace=namespace, by=admin)

    assert not Table.objects.exists()


def test_a_table_stands_in_the_namespace_that_was_named_or_in_the_default_one(
    root: Path, admin: User
) -> None:
    do_register_table(location=f"{root}/t1", slug="t1", by=admin)
    do_register_table(location=f"{root}/t2", slug="t2", namespace="sales", by=admin)

    assert [row.namespace for row in tables_page(admin, Wanted()).rows] == ["default", "sales"]
