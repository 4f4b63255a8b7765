"""Files of rows that others made: CSV, JSON lines and Parquet, decoded by one module for every way
of loading them. Arrow and no Spark: exact by the table's types, in bounded memory.
"""
