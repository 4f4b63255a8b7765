"""One fault of an S3 server per call, over real connections: the answer is right, or an error."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.support.s3_faults import AFTER, BEFORE
from bench.support.s3_server import shared_server
from tests.support.storages import bucket_storage
from workers.errors import LakehouseError, StorageFailed
from workers.storage.object_store import ObjectStorage

KINDS = (*BEFORE, "reset-before", *AFTER)
REFUSED = ("expired", "skewed")
Call = Callable[[ObjectStorage], object]


@pytest.fixture
def bucket() -> ObjectStorage:
    """With `x`, and impatient: late answers come after a second and a half."""
    bucket = bucket_storage(SLUICE_STORAGE_TIMEOUT_MS="1000")
    bucket.put("d/x", b"one")
    return bucket


def replaced(bucket: ObjectStorage) -> bool:
    return bucket.replace_if_match("d/x", b"two", bucket.read_tagged("d/x").tag) is not None


CALLS: dict[str, tuple[Call, object]] = {
    "get": (lambda bucket: bucket.read("d/x"), b"one"),
    "head": (lambda bucket: bucket.info("d/x") is not None, True),
    "list": (lambda bucket: bucket.list_names("d"), ["x"]),
    "put": (lambda bucket: bucket.put("d/y", b"two"), None),
    "put_if_absent": (lambda bucket: bucket.put_if_absent("d/y", b"two"), True),
    "replace_if_match": (replaced, True),
    "delete": (lambda bucket: bucket.delete("d/x"), None),
}
LEFT = {
    "put": {"d/x": b"one", "d/y": b"two"},
    "put_if_absent": {"d/x": b"one", "d/y": b"two"},
    "replace_if_match": {"d/x": b"two"},
    "delete": {},
}


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operation", CALLS)
def test_one_fault_is_absorbed_or_told(bucket: ObjectStorage, operation: str, kind: str) -> None:
    call, right = CALLS[operation]
    prefix = bucket.location.rpartition("/")[2]
    fault = {"kind": kind, "operation": operation, "part": prefix}
    if operation == "delete":
        fault["part"] = ""  # Its keys are in the body.
    with shared_server().failing(fault):
        if kind in REFUSED:
            with pytest.raises(StorageFailed):
                call(bucket)
        else:
            assert call(bucket) == right

    if kind not in REFUSED:
        left = {file.path: bucket.read(file.path) for file in bucket.list_tree("")}
        assert left == LEFT.get(operation, {"d/x": b"one"})


def test_a_store_that_stays_away_is_told_with_the_reason(bucket: ObjectStorage) -> None:
    fault = {"kind": "503", "times": 100}
    with shared_server().failing(fault), pytest.raises(LakehouseError, match="reason=503"):
        bucket.put_if_absent("d/y", b"two")

    assert bucket.put_if_absent("d/y", b"two")
