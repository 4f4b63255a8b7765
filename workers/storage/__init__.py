"""Where a table's bytes live: one port, a directory or a bucket behind it."""
