"""Upgrade of a table of version 6 or 8 to version 9."""
