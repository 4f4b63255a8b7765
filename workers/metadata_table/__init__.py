"""Apache Hudi's metadata table, below `.hoodie/metadata` of a table (metadata page). Sluice reads
the list of files in it and compares that with storage. It does not maintain a metadata table.
"""
