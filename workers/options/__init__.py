"""Options of tables, writes and locks under Hudi's own names: keys, types, defaults, checks."""
