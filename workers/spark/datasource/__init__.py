"""The Spark data source `sluice`: the convenient door for `spark.read` and `df.write`.

`table.read` and `table.write` are the fast one: Spark gives a Python source no way to prune columns
and none to bring rows to the task that owns their file group.
"""

from workers.spark.datasource.source import SluiceDataSource, source_with

__all__ = ["SluiceDataSource", "source_with"]
