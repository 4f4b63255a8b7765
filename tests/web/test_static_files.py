"""Addresses of the pages' own files: worked out once, and those that Django itself gives; the
compressed form that a browser receives.
"""

from __future__ import annotations

import random
from pathlib import Path

import brotli
import pytest
from pytest_django import Settings

from web.static_files import RememberedAddresses


@pytest.fixture
def storage(tmp_path: Path, settings: Settings) -> RememberedAddresses:
    settings.DEBUG = False
    (tmp_path / "icons.0a1b2c.svg").write_text("<svg/>")
    (tmp_path / "staticfiles.json").write_text(
        '{"paths": {"icons.svg": "icons.0a1b2c.svg"}, "version": "1.1", "hash": "x"}'
    )
    return RememberedAddresses(location=tmp_path, base_url="/static/")


def test_an_address_is_worked_out_once(storage: RememberedAddresses) -> None:
    first = storage.url("icons.svg")
    storage.hashed_files.clear()

    assert first == storage.url("icons.svg") == "/static/icons.0a1b2c.svg"


def test_a_file_that_is_not_there_is_none_the_second_time_either(
    storage: RememberedAddresses,
) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match=r"no\.svg"):
            storage.url("no.svg")


def test_files_are_compressed_without_the_slowest_search(storage: RememberedAddresses) -> None:
    chance = random.Random(1)
    script = " ".join(chance.choices(["const", "let", "return", "x", "(y)"], k=20_000)).encode()

    compressed = storage.create_compressor(quiet=True).compress_brotli(script)

    assert brotli.decompress(compressed) == script
    assert len(brotli.compress(script)) < len(compressed) < len(script) / 4
