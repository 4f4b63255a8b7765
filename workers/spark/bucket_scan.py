"""Check whether Spark's own scan can read a bucket: by Hadoop's S3 client, and by the settings and
credentials that the session has. None of ours reach it.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from workers.locations import bucket_place
from workers.storage.s3_settings import ENDPOINT_VARIABLES

_HAS_CLIENT: Final = (
    "SELECT java_method('org.apache.spark.util.Utils', 'classIsLoadable', "
    "'org.apache.hadoop.fs.s3a.S3AFileSystem') AS has_client"
)
"""It runs as a task, so an executor answers."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _BucketScans:
    """Results of the checks of one session."""

    has_client: bool
    readable: dict[tuple[str, str], bool] = field(default_factory=dict)
    """By bucket and endpoint."""


_by_session: WeakKeyDictionary[SparkSession, _BucketScans] = WeakKeyDictionary()


def get_hadoop_location(location: str) -> str:
    """Return the location in a bucket as Hadoop's client names it."""
    return location.replace("s3://", "s3a://", 1)


def can_scan_bucket(spark: SparkSession, location: str, path: str) -> bool:
    """Check whether the session's own scan reads the file at `path` of the table at `location`.

    A session without the client, or without an endpoint for a store that is not Amazon's, gets no
    request. Each session tries a bucket once.
    """
    scans = _by_session.get(spark)
    if scans is None:
        scans = _by_session[spark] = _BucketScans(_has_client(spark))
    if not scans.has_client:
        return False
    bucket = bucket_place(location).bucket
    endpoint = _get_endpoint(spark, bucket)
    if not endpoint and any(os.environ.get(name) for name in ENDPOINT_VARIABLES):
        return False
    if (bucket, endpoint) not in scans.readable:
        scans.readable[bucket, endpoint] = _can_open(spark, f"{location}/{path}")
    return scans.readable[bucket, endpoint]


def _has_client(spark: SparkSession) -> bool:
    """Check whether Spark loads the client. A Spark that refuses the question counts as one without
    it.
    """
    try:
        [row] = spark.sql(_HAS_CLIENT).collect()
    except (PySparkException, Py4JError) as error:
        _log.info("Spark does not list its classes: error=%s", _get_condition(error))
        return False
    return bool(row["has_client"] == "true")


def _get_endpoint(spark: SparkSession, bucket: str) -> str:
    for name in (f"fs.s3a.bucket.{bucket}.endpoint", "fs.s3a.endpoint"):
        for key in (name, f"spark.hadoop.{name}"):
            if value := spark.conf.get(key, ""):
                return str(value)
    return ""


def _can_open(spark: SparkSession, location: str) -> bool:
    """Check whether Spark finds the file, with a log line where it does not."""
    try:
        files = spark.read.format("binaryFile").load(get_hadoop_location(location))
        files.select("length").collect()
    except (PySparkException, Py4JError) as error:
        _log.warning(
            "Spark cannot read the bucket with Hadoop's client, Sluice's readers are "
            "used: bucket=%s error=%s",
            bucket_place(location).bucket,
            _get_condition(error),
        )
        return False
    return True


def _get_condition(error: Exception) -> str:
    """Return a name for the error: its text may repeat a setting of the session."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return condition or type(error).__name__
