"""A bounded read of a topic: its offsets stand in the operation's row, and whoever comes in the
place of a writer that died is given them.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from controlplane.errors import InvalidRequest
from controlplane.operations.actions import (
    do_record_report,
    do_request_again,
    do_request_write,
)
from controlplane.operations.kinds.write import start_again
from controlplane.operations.models import Operation
from controlplane.operations.requesting import Given
from controlplane.tables.models import Table

TOPIC = {"kind": "kafka", "topic": "trips", "bootstrap": "broker:9092", "start": "earliest"}
OFFSETS = '{"topic_id": "a", "partitions": {"0": [3, 9]}}'


def asked_for(table: Table, by: User, **changes: Any) -> Operation:
    return do_request_write(table=table, parameters={"source": {**TOPIC, **changes}}, by=by)


def settle(operation: Operation, settled: object) -> None:
    do_record_report({"operation_id": operation.pk, "state": "progress", "settled": settled})
    operation.refresh_from_db()


def test_writer_in_the_place_of_one_that_died_reads_the_same_offsets(
    synced: Table, operator: User
) -> None:
    operation = asked_for(synced, operator)
    settle(operation, {"offsets": OFFSETS})

    following = start_again(operation)
    assert following is not None
    last = start_again(following)

    assert operation.settled == {"offsets": OFFSETS}
    for each in (following, last):
        assert each is not None
        assert each.parameters["job"]["source"] == {**TOPIC, "offsets": OFFSETS}
    assert last is not None
    assert start_again(last) is None


def test_person_who_asks_again_reads_to_the_end_of_now(synced: Table, operator: User) -> None:
    operation = asked_for(synced, operator)
    settle(operation, {"offsets": OFFSETS})
    following = start_again(operation)
    assert following is not None
    Operation.objects.update(state="succeeded")

    for ended in Operation.objects.filter(pk__in=[operation.pk, following.pk]):
        again = do_request_again(ended, {}, Given(), operator)
        assert again.parameters["job"]["source"] == TOPIC


@pytest.mark.parametrize("settled", ["x", {"offsets": 5}, {str(n): "" for n in range(11)}])
def test_report_settles_small_texts_alone(synced: Table, operator: User, settled: object) -> None:
    operation = asked_for(synced, operator)

    with pytest.raises(InvalidRequest):
        settle(operation, settled)


@pytest.mark.parametrize(
    "changes",
    [
        {"ssl.engine.location": "/tmp/x.so"},
        {"bootstrap": "file:///etc/passwd"},
        {"password_env": "SLUICE_SECRET_KEY", "protocol": "SASL_SSL"},
        {"start": "latest"},
    ],
)
def test_topic_is_refused_before_anything_is_stored(
    synced: Table, operator: User, changes: dict[str, str]
) -> None:
    """Threat T5."""
    with pytest.raises(InvalidRequest):
        asked_for(synced, operator, **changes)
    assert Operation.objects.count() == 0
