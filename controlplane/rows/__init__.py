"""Rows of one table for people: of a moment, one row's history, what a commit or a time changed."""
