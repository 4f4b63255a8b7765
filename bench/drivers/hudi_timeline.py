"""Apache Hudi's own timeline server, for its markers, in the JVM of a Spark session of its own.

At Hudi's defaults (20 threads, a batch every 50 ms). It reads its parameters from the query alone.
"""

from __future__ import annotations

import sys

from bench.drivers.serving import Job, serve
from bench.drivers.sessions import spark_session


def jobs() -> dict[str, Job]:
    spark = spark_session(
        {
            "spark.jars": sys.argv[1],
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        }
    )
    hudi = spark._jvm.org.apache.hudi
    service = hudi.timeline.service.TimelineService
    storage = hudi.storage.hadoop.HadoopStorageConfiguration(spark._jsc.hadoopConfiguration())
    config_type = getattr(hudi.timeline.service, "TimelineService$Config")
    config = config_type.builder().serverPort(0).enableMarkerRequests(True).build()
    views = service.buildFileSystemViewManager(config, storage)
    running = service(storage, config, views)
    port = running.startService()
    return {"port": lambda: port}


if __name__ == "__main__":
    serve(jobs)
