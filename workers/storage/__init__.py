"""Storage of a table's files: one port, with a directory or a bucket behind it."""
