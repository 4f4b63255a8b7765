"""Setting a Spark conf equals running code: only exact, listed keys with typed values pass."""

from __future__ import annotations

import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.errors import InvalidInput
from workers.spark.settings import ALLOWED, checked_settings

GOOD = {
    "spark.scheduler.pool": "ingest",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "67108864",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.adaptive.skewJoin.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "0",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.files.maxPartitionBytes": "134217728",
    "spark.sql.files.openCostInBytes": "4194304",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
}
DANGEROUS = [
    "spark.sql.extensions",
    "spark.plugins",
    "spark.jars",
    "spark.jars.packages",
    "spark.jars.ivySettings",
    "spark.submit.pyFiles",
    "spark.pyspark.python",
    "spark.pyspark.driver.python",
    "spark.executor.extraJavaOptions",
    "spark.driver.extraJavaOptions",
    "spark.driver.defaultJavaOptions",
    "spark.executorEnv.PYTHONPATH",
    "spark.executorEnv.LD_PRELOAD",
    "spark.sql.catalog.evil",
    "spark.sql.streaming.streamingQueryListeners",
    "spark.hadoop.fs.file.impl",
    "spark.hadoop.hadoop.security.credential.provider.path",
    "spark.redaction.regex",
    "spark.ui.proxyRedirectUri",
    "spark.sql.queryExecutionListeners",
    "spark.sql.warehouse.dir",
    "spark.python.daemon.module",
    "spark.python.worker.module",
    "spark.files",
    "spark.archives",
    "spark.kryo.registrator",
    "spark.serializer",
    "spark.metrics.conf",
    "spark.eventLog.dir",
]

keys = st.sampled_from(sorted(ALLOWED))


def test_every_allowed_setting_has_a_value_that_passes() -> None:
    assert set(GOOD) == set(ALLOWED)
    assert checked_settings(GOOD) == GOOD


@pytest.mark.parametrize("key", DANGEROUS)
def test_setting_that_runs_code_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput, match="allow-list"):
        checked_settings({key: "true"})


@given(key=keys, pad=st.text(alphabet=string.whitespace + "\x00\u200b\u00a0\ufeff", min_size=1))
def test_key_with_anything_invisible_around_it_is_refused(key: str, pad: str) -> None:
    for variant in (pad + key, key + pad, key.replace(".", "." + pad, 1)):
        with pytest.raises(InvalidInput):
            checked_settings({variant: GOOD[key]})


@given(key=keys, data=st.data())
def test_key_in_another_case_is_refused(key: str, data: st.DataObject) -> None:
    letters = [place for place, letter in enumerate(key) if letter.swapcase() != letter]
    place = data.draw(st.sampled_from(letters))
    variant = key[:place] + key[place].swapcase() + key[place + 1 :]
    with pytest.raises(InvalidInput):
        checked_settings({variant: GOOD[key]})


@given(key=keys, suffix=st.text(min_size=1, max_size=20))
def test_key_that_only_begins_or_ends_like_an_allowed_one_is_refused(key: str, suffix: str) -> None:
    for variant in (key + suffix, suffix + key, key + "." + suffix, "spark.hadoop." + key):
        if variant not in ALLOWED:
            with pytest.raises(InvalidInput):
                checked_settings({variant: GOOD[key]})


@pytest.mark.parametrize("key", sorted(ALLOWED))
def test_key_in_lookalike_letters_is_refused(key: str) -> None:
    fullwidth = "".join(chr(ord(c) + 0xFEE0) if c.isalpha() else c for c in key)
    cyrillic = key.replace("a", "\u0430").replace("e", "\u0435").replace("s", "\u0455")
    assert unicodedata.normalize("NFKC", fullwidth) == key
    for variant in (fullwidth, cyrillic):
        with pytest.raises(InvalidInput):
            checked_settings({variant: GOOD[key]})


@given(key=st.text(max_size=60), value=st.text(max_size=60))
def test_no_text_outside_the_list_passes(key: str, value: str) -> None:
    if key not in ALLOWED:
        with pytest.raises(InvalidInput):
            checked_settings({key: value})


@given(key=keys, value=st.text(max_size=30))
def test_value_that_passes_is_a_plain_word_or_number(key: str, value: str) -> None:
    try:
        checked_settings({key: value})
    except InvalidInput:
        return
    assert value.isascii()
    assert value.replace("_", "").replace("-", "").isalnum()


@pytest.mark.parametrize(
    "value", ["0", "10001", "-1", "+8", " 8", "8\n", "8.0", "0x8", "08", "1e2", "\uff18", "", "8 9"]
)
def test_number_outside_its_range_or_spelling_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match="wrong value"):
        checked_settings({"spark.sql.shuffle.partitions": value})


@pytest.mark.parametrize("zone", ["utc", "Europe/Oslo", "UTC ", "GMT", "+00:00"])
def test_any_time_zone_but_utc_is_refused(zone: str) -> None:
    with pytest.raises(InvalidInput):
        checked_settings({"spark.sql.session.timeZone": zone})


@pytest.mark.parametrize("value", [8, None, True, ["8"], b"8"])
def test_value_that_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput):
        checked_settings({"spark.sql.shuffle.partitions": value})  # type: ignore[dict-item]
