"""Where a table's bytes live: one port, one directory implementation."""
