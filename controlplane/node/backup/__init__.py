"""Backup of the node's database into one file, and restore from it, or from table storage alone."""
