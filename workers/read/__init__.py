"""Reading a table as of an instant: which files, and one file slice merged."""
