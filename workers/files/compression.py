"""`hoodie.parquet.compression.codec` as keyword arguments of Parquet writers."""

from __future__ import annotations

from typing import TypedDict

from workers.files.base_file import Codec as ParquetCodec
from workers.options.write_keys import Codec

_ZSTD_LEVEL = 1
_PARQUET_CODECS: dict[Codec, ParquetCodec] = {
    Codec.ZSTD: "zstd",
    Codec.GZIP: "gzip",
    Codec.SNAPPY: "snappy",
    Codec.LZ4: "lz4",
    Codec.BROTLI: "brotli",
    Codec.UNCOMPRESSED: "none",
}


class Compression(TypedDict):
    """Keyword arguments of Parquet writers."""

    codec: ParquetCodec
    level: int | None


def get_compression(codec: Codec) -> Compression:
    """Return the codec and its level: level 1 for Zstandard, the library's own for the others."""
    level = _ZSTD_LEVEL if codec is Codec.ZSTD else None
    return {"codec": _PARQUET_CODECS[codec], "level": level}
