"""Registered tables and who may see them."""
