"""Whole tables, drawn by a seed, next to a model that keeps rows in a dictionary."""
