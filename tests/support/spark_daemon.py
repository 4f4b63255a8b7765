"""What Spark's Python workers are forked from: it has loaded the engine before, so that a worker
does not load it again. (Each session has a daemon and some workers of its own.)

Run as `python -m tests.support.spark_daemon <worker module>`, the setting
`spark.python.daemon.module`.
"""

from __future__ import annotations

import importlib

from pyspark import daemon

LOADED = ("pandas", "pyarrow.compute", "pyarrow.parquet", "workers.spark.datasource")

if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    daemon.manager()
