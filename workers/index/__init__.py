"""Indexes: the lookup of the file group of a record key."""

__all__: list[str] = []
