"""The declared options: each with a default that its type takes, one page that shows them all, and
an answer to a key that is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from workers.errors import InvalidInput
from workers.options.catalogue import CATALOGUE, lines, markdown
from workers.options.option import Boolean, Integer, Number, OneOf, Option, OptionSet, Setter
from workers.options.sink_keys import SINK_OPTIONS
from workers.options.table_keys import TABLE_OPTIONS
from workers.options.write_keys import WRITE_OPTIONS
from workers.options.write_options import write_options
from workers.sink.config import sink_config

PAGE = Path(__file__).parents[3] / "docs" / "options.md"


def test_the_page_of_options_is_the_one_that_is_printed() -> None:
    assert PAGE.read_text() == markdown(), "run: manage.py options --markdown > docs/options.md"


def test_the_page_shows_every_set_that_there_is() -> None:
    shown = {options.name for _, options in CATALOGUE}
    assert shown == {options.name for options in OptionSet.every}


@pytest.mark.parametrize(
    "options", [options for _, options in CATALOGUE], ids=lambda options: options.name
)
def test_every_default_is_of_the_declared_type(options: OptionSet) -> None:
    for key in options:
        assert_takes(options, options[key])
        assert options[key].meaning.endswith("."), key


def assert_takes(options: OptionSet, option: Option) -> None:
    said = {option.key: option.default}
    if option.default == "":
        return  # Nothing is said; the meaning tells what follows.
    match option.kind:
        case Integer():
            options.integer(said, option.key)
        case Number():
            options.number(said, option.key)
        case Boolean():
            options.boolean(said, option.key)
        case OneOf(kind):
            options.choice(said, option.key, kind)


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"hoodie.write.lock.provder": "storage"}, "did_you_mean=hoodie.write.lock.provider"),
        ({"hoodie.sink.id": "orders"}, "is=a sink option"),
        ({"hoodie.bucket.index.num.buckets": "4"}, "is=a table option"),
        ({"hoodie.kafka.topc": "orders"}, "which_is=a sink option"),
    ],
    ids=str,
)
def test_an_unknown_key_is_answered_with_the_nearest_known_one(
    given: Mapping[str, str], answer: str
) -> None:
    with pytest.raises(InvalidInput, match=r"unknown write option") as raised:
        write_options(given)
    assert answer in str(raised.value)


def test_a_key_like_no_other_is_answered_with_all_of_them() -> None:
    with pytest.raises(InvalidInput, match=r"unknown sink option.*known=.*hoodie\.kafka\.topic"):
        sink_config({"zzz": "1"})


@pytest.mark.parametrize(
    ("options", "key", "text"),
    [
        (WRITE_OPTIONS, "hoodie.write.lock.wait_time_ms", "3600001"),
        (WRITE_OPTIONS, "hoodie.write.lock.wait_time_ms", "-1"),
        (SINK_OPTIONS, "hoodie.kafka.buffer.max.bytes", "1"),
        (TABLE_OPTIONS, "hoodie.bucket.index.num.buckets", "0"),
    ],
)
def test_a_number_outside_its_range_is_refused_with_the_range(
    options: OptionSet, key: str, text: str
) -> None:
    with pytest.raises(InvalidInput, match=rf"number out of range: key={key}.*least=.*most="):
        options.integer({key: text}, key)


def test_a_value_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidInput, match="a write option is text"):
        write_options({"hoodie.write.num.retries.on.conflict.failures": 3})  # type: ignore[dict-item]


def test_a_key_stands_once_in_a_set() -> None:
    option = Option("sluice.twice", Boolean(), "false", "Stands twice.")
    before = len(OptionSet.every)
    with pytest.raises(AssertionError, match="occurs twice"):
        OptionSet("made for a test", Setter.WRITE, (option, option))
    assert len(OptionSet.every) == before


def test_options_are_found_by_a_word_of_their_key_or_meaning() -> None:
    assert any(
        "hoodie.client.heartbeat.interval_in_ms=60000" in line for line in lines("Heartbeat")
    )
    assert lines("no option speaks of this") == []
