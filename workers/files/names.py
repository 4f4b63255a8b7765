"""The grammar of names on storage: base and log files, file ids, partition paths, table names.

Pure text. A name outside the grammar parses to None (foreign files are simply not ours) and is
rejected with InvalidInput when it is to be written. No name can leave the table's directory.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from workers.clock import InstantTime
from workers.errors import InvalidInput

FileId = str
"""Identifies a file group inside its partition."""
WriteToken = str
"""`taskPartition-stage-attempt`: distinguishes two attempts of one task."""

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_BUCKET_SUFFIX = "-0000-0000-0000-000000000000-0"
_REMEMBERED_MAX: Final = 32_768
"""The limit of parsed names in memory. Each write parses all names of the table again."""
_SEGMENT_BYTES_MAX = 255
_PATH_BYTES_MAX = 1024

_FILE_ID = r"[A-Za-z0-9-]{1,128}"
_INSTANT = r"[0-9]{17}|[0-9]{14}"
_THREE_NUMBERS = r"[0-9]{1,19}-[0-9]{1,19}-[0-9]{1,19}"
_BASE_FILE = re.compile(rf"({_FILE_ID})_({_THREE_NUMBERS})_({_INSTANT})\.parquet")
_LOG_FILE = re.compile(
    rf"\.({_FILE_ID})_({_INSTANT})\.log\.([0-9]{{1,9}})_({_THREE_NUMBERS})(\.cdc)?"
)
_UNREAD_BASE_FILE = re.compile(rf"{_FILE_ID}_{_THREE_NUMBERS}_(?:{_INSTANT})\.(orc|hfile|lance)")
_ONLY_FILE_ID = re.compile(_FILE_ID)
_ONLY_TOKEN = re.compile(_THREE_NUMBERS)
_ONLY_INSTANT = re.compile(_INSTANT)
_BUCKET = re.compile(r"([0-9]{8})-.+")
_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}")
_COLUMN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_FORBIDDEN_IN_PATH = re.compile(r"[\x00-\x1f\x7f\\\"'`*]")
# Hive's list, which Hudi follows; everything else stays as it is, spaces included.
_ENCODED_IN_VALUE = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")


@dataclass(frozen=True, slots=True)
class BaseFileName:
    """The parts of a base file's name (format page 4.1). Raises InvalidInput for one outside the
    grammar.
    """

    file_id: FileId
    write_token: WriteToken
    instant: InstantTime
    """The request instant of the commit that wrote it."""

    def __post_init__(self) -> None:
        _check(self.file_id, self.write_token, self.instant)

    @property
    def text(self) -> str:
        """The name, without a directory."""
        return f"{self.file_id}_{self.write_token}_{self.instant}.parquet"


@dataclass(frozen=True, slots=True)
class LogFileName:
    """The parts of a log file's name (format page 5.1). Raises InvalidInput for one outside the
    grammar.
    """

    file_id: FileId
    instant: InstantTime
    """The request instant of the writing deltacommit; on version 6 the slice's base instant."""
    version: int
    write_token: WriteToken
    is_cdc: bool = False

    def __post_init__(self) -> None:
        _check(self.file_id, self.write_token, self.instant)
        if self.version < 0:
            raise InvalidInput("log version is negative", version=self.version)

    @property
    def text(self) -> str:
        """The name, without a directory; it starts with a dot."""
        suffix = ".cdc" if self.is_cdc else ""
        return f".{self.file_id}_{self.instant}.log.{self.version}_{self.write_token}{suffix}"


def _check(file_id: str, token: str, instant: str) -> None:
    if not _ONLY_FILE_ID.fullmatch(file_id):
        raise InvalidInput("file id does not follow the grammar", file_id=file_id)
    if not _ONLY_TOKEN.fullmatch(token):
        raise InvalidInput("write token is not three numbers", write_token=token)
    if not _ONLY_INSTANT.fullmatch(instant):
        raise InvalidInput("instant time has neither 14 nor 17 digits", instant=instant)


@lru_cache(maxsize=_REMEMBERED_MAX)
def parse_base_file(name: str) -> BaseFileName | None:
    """Return the parts of a Parquet base file's name; None for any other name."""
    parts = _BASE_FILE.fullmatch(name)
    return BaseFileName(parts[1], parts[2], parts[3]) if parts else None


def unread_base_format(name: str) -> str | None:
    """Return the format of a base file that other engines read and Sluice does not, such as
    `lance`.
    """
    name_match = _UNREAD_BASE_FILE.fullmatch(name)
    return name_match[1] if name_match else None


@lru_cache(maxsize=_REMEMBERED_MAX)
def parse_log_file(name: str) -> LogFileName | None:
    """Return the parts of a log file's name, of change logs (`.cdc`) too; None for any other
    name.
    """
    parts = _LOG_FILE.fullmatch(name)
    if parts is None:
        return None
    return LogFileName(parts[1], parts[2], int(parts[3]), parts[4], is_cdc=parts[5] is not None)


def parse_name_instant(name: str) -> InstantTime | None:
    """Return the instant in a data file's name; None for any other name."""
    if base := parse_base_file(name):
        return base.instant
    log = parse_log_file(name)
    return log.instant if log else None


def write_token(partition: int, stage: int, attempt: int) -> WriteToken:
    """Return the token of one attempt of one task."""
    return f"{partition}-{stage}-{attempt}"


def parse_task_number(token: WriteToken) -> int:
    """Return the number of the task whose attempt has this token."""
    return int(token.partition("-")[0])


def bucket_file_id(bucket: int, *, after: InstantTime | None = None) -> FileId:
    """Return the one id that every writer picks for a bucket, so first writers meet in one file
    group.

    `after` is the replacecommit that took the bucket's former file group away: a replaced id must
    never come back, and all who saw the same replacement still pick the same new one.
    """
    if not 0 <= bucket <= 99_999_999:
        raise InvalidInput("bucket number has more than eight digits", bucket=bucket)
    if after is None:
        return f"{bucket:08d}{_BUCKET_SUFFIX}"
    digits = after.ljust(24, "0")
    return f"{bucket:08d}-{digits[:4]}-{digits[4:8]}-{digits[8:12]}-{digits[12:]}-0"


def new_file_id(*seed: str) -> FileId:
    """Return the id of a file group that is not a bucket: all who know the seed get the same one.

    It begins with `a` to `f`, so that no reader parses its head as a bucket.
    """
    digits = hashlib.sha256("\0".join(seed).encode()).hexdigest()
    head = "abcdef"[int(digits[0], 16) % 6] + digits[1:8]
    return f"{head}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}-0"


@lru_cache(maxsize=_REMEMBERED_MAX)
def parse_bucket_number(file_id: FileId) -> int | None:
    """Return the bucket number at the head of an id of any bucket-index writer, or None.

    Meaningful on a bucket-indexed table only: a random id may start with eight digits by chance.
    """
    id_match = _BUCKET.fullmatch(file_id)
    return int(id_match[1]) if id_match else None


def check_table_name(name: str) -> str:
    """Check and return `name`. Raises InvalidInput."""
    if not _TABLE_NAME.fullmatch(name):
        raise InvalidInput("table name must be letters, digits, '_' and '-'", table=name)
    return name


def check_column_name(name: str) -> str:
    """Check and return `name`. Raises InvalidInput if it is not a valid Avro name."""
    if not _COLUMN_NAME.fullmatch(name):
        raise InvalidInput("column name must be letters, digits and '_'", column=name)
    return name


def check_partition_path(text: str, *, url_encode: bool = False) -> str:
    """Check and return `text`, which is `""` for a table without partitions.

    Raises InvalidInput when it could leave the table, hide in it, or mean something to a shell or a
    glob.
    """
    if not text:
        return text
    if forbidden := _FORBIDDEN_IN_PATH.search(text):
        raise InvalidInput(
            "partition path has a forbidden character", partition=text, found=forbidden[0]
        )
    if "%" in (_ESCAPE.sub("", text) if url_encode else text):
        raise InvalidInput("partition path has a percent sign", partition=text)
    for segment in text.split("/"):
        if not segment:
            raise InvalidInput("partition path has an empty part", partition=text)
        if segment.startswith("."):
            raise InvalidInput("partition path has a part that starts with a dot", partition=text)
        if _byte_length(segment, partition=text) > _SEGMENT_BYTES_MAX:
            raise InvalidInput("partition value is too long", bytes_max=_SEGMENT_BYTES_MAX)
    if _byte_length(text, partition=text) > _PATH_BYTES_MAX:
        raise InvalidInput("partition path is too long", bytes_max=_PATH_BYTES_MAX)
    return text


def partition_path(
    fields: Sequence[str], values: Sequence[object], *, hive_style: bool, url_encode: bool
) -> str:
    """Return the directory of rows with these values, spelled as Hudi spells it; `""` without
    fields.

    Raises InvalidInput for a value that has no safe or no well-defined spelling.
    """
    assert len(fields) == len(values), (fields, values)
    segments = []
    for field, value in zip(fields, values, strict=True):
        text = _value_text(field, value)
        if url_encode:
            text = _ENCODED_IN_VALUE.sub(lambda character: f"%{ord(character[0]):02X}", text)
        segments.append(f"{field}={text}" if hive_style else text)
    return check_partition_path("/".join(segments), url_encode=url_encode)


def partition_texts(
    fields: Sequence[str], path: str, *, hive_style: bool, url_encode: bool
) -> list[str] | None:
    """Return the text of each field's value in a path that `partition_path` spelled,
    `DEFAULT_PARTITION` for none; None if the path is ambiguous, as with several values that contain
    '/'.
    """
    segments = path.split("/") if len(fields) > 1 else [path]
    if len(segments) != len(fields):
        return None
    texts = []
    for field, segment in zip(fields, segments, strict=True):
        prefix = f"{field}=" if hive_style else ""
        if not segment.startswith(prefix):
            return None
        text = segment[len(prefix) :]
        if url_encode:
            text = _ESCAPE.sub(lambda escape: chr(int(escape[0][1:], 16)), text)
        texts.append(text)
    return texts


def _value_text(field: str, value: object) -> str:
    match value:
        case None | "":
            return DEFAULT_PARTITION
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            return str(value)
        case dt.date() if not isinstance(value, dt.datetime):
            return value.isoformat()
        case _:
            pass
    # Floats and timestamps print differently in Java: two engines would pick two directories.
    raise InvalidInput(
        "partition value must be text, an integer, a boolean or a date; of a time make a date, or "
        "use a timestamp-based key generator",
        column=field,
        value=value,
    )


def _byte_length(text: str, *, partition: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput("partition path is not valid text", partition=repr(partition)) from error
