"""Deleting committed rows on purpose: a plan with the rows or files to delete, then one ordinary
write.
"""
