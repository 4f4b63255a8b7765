"""A table under random operations and crashes beside a model of plain Python."""
