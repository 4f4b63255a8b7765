"""Everything that touches Spark, on the driver and on executors; no other package imports pyspark.

Only the DataFrame API: the same code runs against a Connect server and a classic session.
"""
