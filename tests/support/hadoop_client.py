"""Hadoop's client for S3, as settings of a Spark session that resolve its jars."""

from __future__ import annotations

from typing import Final

PACKAGES: Final = {"spark.jars.packages": "org.apache.spark:spark-hadoop-cloud_2.13:4.1.2"}
