"""From a record key to its file group."""

__all__: list[str] = []
