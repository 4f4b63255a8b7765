"""Table schemas: Avro on storage, Arrow in memory; what equals, what may follow, who wins."""

__all__: list[str] = []
