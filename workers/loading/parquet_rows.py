"""Parquet files as rows of the table's types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from workers.errors import InvalidInput
from workers.files.arrow_streams import parquet_file
from workers.loading.bad_row import BadRow
from workers.loading.content import InputFile
from workers.loading.counts import LoadCounts
from workers.loading.names import stored_names
from workers.loading.options import LoadOptions

_BATCH_ROWS = 65_536


class ParquetRows:
    """See RowSource."""

    is_all_known = True

    def __init__(
        self,
        files: Sequence[InputFile],
        options: LoadOptions,
        known: pa.Schema,
        keys: Sequence[str],
    ) -> None:
        self._files = files
        self._options = options
        self.counts = LoadCounts()
        schemas = []
        for file in files:
            with file.opened() as stored:
                try:
                    schemas.append(parquet_file(stored).schema_arrow)
                except pa.ArrowInvalid as error:
                    raise InvalidInput(
                        "file is not read as Parquet", path=file.name, why=error
                    ) from error
        self.schema = schemas[0]
        stored_names(
            self.schema.names,
            known=known.names,
            is_clean=options.names == "clean",
            file=files[0].name,
        )

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self.counts = LoadCounts()
        for file in self._files:
            with file.opened() as stored:
                for batch in parquet_file(stored).iter_batches(_BATCH_ROWS, use_threads=False):
                    self.counts.rows += batch.num_rows
                    yield batch


__all__ = ["BadRow", "ParquetRows"]
