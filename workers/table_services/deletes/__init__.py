"""Deleting committed rows on purpose: a plan that says what goes, then one ordinary write."""
