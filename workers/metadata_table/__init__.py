"""Apache Hudi's metadata table, below `.hoodie/metadata` of a table: what it says of the table's
files (metadata page). Sluice reads it and compares it with storage; it does not maintain one.
"""
