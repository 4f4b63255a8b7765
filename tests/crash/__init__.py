"""Processes that die at every call of the storage port."""
