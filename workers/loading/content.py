"""The bytes of a file of rows: decompressed, and as UTF-8 whatever its encoding is."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa

from workers.errors import InvalidInput
from workers.loading.findings import BadRow
from workers.loading.options import LoadOptions

_MAGIC: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_OTHER_MAGIC: Final = {
    b"PK\x03\x04": "a ZIP archive or a spreadsheet: unpack it, or save the sheet as CSV",
    b"BZh": "compressed by bzip2: compress it by gzip or zstd",
    b"\xfd7zXZ": "compressed by xz: compress it by gzip or zstd",
}
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_HEAD_BYTES: Final = 6


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read: by its path, or an open binary stream that can seek."""

    name: str
    """For messages, and for what a name shows: the format and the compression."""
    path: Path | None = None
    stream: BinaryIO | None = None
    decoded_bytes_max: int = 1 << 30
    """A Parquet file of more, which is also a thousand times its size, is rejected."""

    @classmethod
    def of(cls, requested: str | Path | InputFile) -> InputFile:
        """Return the file at a path, or `given` itself."""
        if isinstance(requested, InputFile):
            return requested
        return cls(Path(requested).name, path=Path(requested))

    @property
    def size(self) -> int:
        """Bytes as they are stored."""
        if self.path is not None:
            return self.path.stat().st_size
        assert self.stream is not None, self.name
        end = self.stream.seek(0, io.SEEK_END)
        self.stream.seek(0)
        return end

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """The stored bytes from their beginning. Raises InvalidInput if the file does not exist."""
        if self.stream is not None:
            self.stream.seek(0)
            yield self.stream
            return
        assert self.path is not None, self.name
        try:
            file = self.path.open("rb")
        except (FileNotFoundError, IsADirectoryError) as error:
            raise InvalidInput("file not found", file=self.name) from error
        with file:
            yield file


class Content:
    """The content of one file as UTF-8 without a byte order mark, read from its beginning."""

    def __init__(self, stored: Any, file: InputFile, options: LoadOptions) -> None:
        self._stored = stored
        self._name = file.name
        head = stored.read(_HEAD_BYTES)
        stored.seek(0)
        for magic, what in _OTHER_MAGIC.items():
            if head.startswith(magic):
                raise InvalidInput(f"the file is {what}", file=file.name)
        compression: Any = options.compression
        if not compression:
            names = [name for magic, name in _MAGIC.items() if head.startswith(magic)]
            compression = names[0] if names else options.get_compression(file.name)
        self._compression = compression
        # Read by the thread that asks: Arrow's own never call Python here.
        self._plain = (
            stored
            if compression == "none" or not head
            else pa.CompressedInputStream(pa.PythonFile(stored, "r"), compression)
        )
        self._encoding = codecs.lookup(options.encoding).name
        is_utf8 = self._encoding in ("utf-8", "utf-8-sig")
        decoder = None if is_utf8 else codecs.getincrementaldecoder(self._encoding)()
        self._decoder = decoder
        self._is_first = True
        self._lines = 1

    @property
    def bytes_read(self) -> int:
        """Bytes of the stored file that were read."""
        return int(self._stored.tell())

    def read(self, size: int) -> bytes:
        """Return about `size` bytes of UTF-8; none at the end. Raises BadRow for what is not of the
        encoding, InvalidInput for a damaged compressed file.
        """
        data = self._read_plain(size)
        if self._is_first:
            self._is_first = False
            data = self._without_mark(data)
        if self._decoder is None:
            return data
        try:
            text = self._decoder.decode(data, final=not data)
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode(self._encoding, errors="replace")
            raise BadRow(
                f"the text is not {self._encoding}",
                file=self._name,
                line=self._lines + before.count("\n"),
                advice="give the encoding that the file has, such as encoding=utf-8 or latin-1",
            ) from error
        self._lines += text.count("\n")
        if data and not text:
            return self.read(size)
        return text.encode("utf-8", "surrogatepass")

    def _read_plain(self, size: int) -> bytes:
        try:
            return bytes(self._plain.read(size))
        except OSError as error:
            if self._compression == "none":
                raise
            raise InvalidInput(
                f"the file is not {self._compression}, or damaged: it cannot be decompressed; give "
                "compression=none for a plain file",
                file=self._name,
            ) from error

    def _without_mark(self, data: bytes) -> bytes:
        if self._decoder is not None:
            return data
        if data.startswith(_UTF16_MARKS):
            raise BadRow(
                "the text is not utf-8 but seems to be UTF-16",
                file=self._name,
                line=1,
                advice="give encoding=utf-16",
            )
        return data.removeprefix(codecs.BOM_UTF8)


def reject_nul(header: bytes, name: str) -> None:
    """Refuse, as a BadRow, a first line that no text has."""
    if b"\0" in header:
        raise BadRow(
            "the first line holds NUL bytes", file=name, line=1, advice="give encoding=utf-16"
        )


def reject_encoding(block: bytes, name: str, line: int) -> None:
    """Refuse bytes that are not UTF-8, as a BadRow with the line; return for others."""
    try:
        block.decode()
    except UnicodeDecodeError as error:
        advice = "give the encoding that the file has, such as encoding=latin-1 or cp1252"
        if b"\0" in block[: error.start + 2]:
            advice = "give encoding=utf-16"
        raise BadRow(
            "the text is not utf-8",
            file=name,
            line=line + count_lines(block[: error.start]),
            advice=advice,
        ) from error


def count_lines(block: bytes) -> int:
    """Return how many lines end in the block, by LF, CR LF or CR."""
    # Faster than `bytes.count`, which starts one search per line.
    lines = int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))
    if b"\r" in block:
        lines += block.count(b"\r") - block.count(b"\r\n")
    return lines
