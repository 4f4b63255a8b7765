"""Clustering: each file group is rewritten, sorted, into one new file group of its bucket."""
