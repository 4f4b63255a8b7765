"""Compaction: logs are merged into their base files, which become new versions of the same file
groups.
"""
