"""Table schemas: Avro on storage, Arrow in memory; equality, evolution and conflicts."""

__all__: list[str] = []
