"""`.hoodie/hoodie.properties`: Java's properties text, its checksum, its backup.

A replacement writes the old content to the backup first and removes the backup last, as Hudi does,
so a reader finds one whole file at every moment. A wrong checksum is fatal to Hudi, a missing one
is not (format page 1.2).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from functools import lru_cache

from workers.errors import (
    LakehouseError,
    MalformedTable,
    NotFound,
    TableChanged,
    TableNotFound,
)
from workers.storage.base import Storage
from workers.table_layout import PROPERTIES, PROPERTIES_BACKUP

CHECKSUM_KEY = "hoodie.table.checksum"
_HEADING = "Properties"
_NAME_KEY = "hoodie.table.name"
_DATABASE_KEY = "hoodie.database.name"

_ENDS_OPEN = re.compile(r"(?<!\\)(?:\\\\)*\\$")
_BLANK = " \t\f"
_ESCAPE = re.compile(r"\\(?:u(.{0,4})|(.?))", re.DOTALL)
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def parse_properties(content: bytes) -> dict[str, str]:
    """Parse as Java does: comments, continued lines, `=`, `:` or blank after the key, escapes.

    Raises MalformedTable for a broken escape.
    """
    return dict(_parse_cached(content))


@lru_cache(maxsize=64)
def _parse_cached(content: bytes) -> Mapping[str, str]:
    """Parse and remember: a process opens the same tables repeatedly."""
    properties: dict[str, str] = {}
    for line in _logical_lines(content.decode("latin-1")):
        key, value = _split(line)
        properties[_unescape(key)] = _unescape(value)
    return properties


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    open_line: str | None = None
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(_BLANK)
        if open_line is None and (not line or line[0] in "#!"):
            continue
        line = (open_line or "") + line
        if _ENDS_OPEN.search(line):
            open_line = line[:-1]
        else:
            lines.append(line)
            open_line = None
    if open_line:
        lines.append(open_line)
    return lines


def _split(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line) and line[position] not in "=:" + _BLANK:
        position += 2 if line[position] == "\\" else 1
    rest = line[position:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return line[:position], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    joined = _ESCAPE.sub(_decode_escape, text)
    # Java writes two escapes for a character beyond the basic plane: join the surrogates again.
    return joined.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _decode_escape(escape: re.Match[str]) -> str:
    digits, char = escape[1], escape[2]
    if digits is None:
        return _ESCAPES.get(char, char)
    if not re.fullmatch(r"[0-9A-Fa-f]{4}", digits):
        raise MalformedTable("properties file has a broken \\u escape", found=digits)
    return chr(int(digits, 16))


def format_properties(properties: Mapping[str, str], *, comment: str = _HEADING) -> bytes:
    """Format a line `key=value` each, in the mapping's order, the checksum last."""
    ordered = {key: value for key, value in properties.items() if key != CHECKSUM_KEY}
    if CHECKSUM_KEY in properties:
        ordered[CHECKSUM_KEY] = properties[CHECKSUM_KEY]
    lines = [f"#{comment}"]
    lines += [f"{_escape(key, is_key=True)}={_escape(value)}" for key, value in ordered.items()]
    return ("\n".join(lines) + "\n").encode("ascii")


def _escape(text: str, *, is_key: bool = False) -> str:
    out: list[str] = []
    for position, char in enumerate(text):
        if char in _ESCAPED:
            out.append(_ESCAPED[char])
        elif char in "=:#!" or (char == " " and (is_key or position == 0)):
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            units = char.encode("utf-16-be", "surrogatepass")
            out += [f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2)]
    return "".join(out)


def is_our_writing(content: bytes) -> bool:
    """Return True if Sluice wrote the file last: Hudi's heading contains the time."""
    return content.startswith(f"#{_HEADING}\n".encode())


def table_checksum(database: str | None, table: str) -> int:
    """Return the CRC-32 of `database.table`, which Hudi requires in the file (format page 1.2)."""
    return zlib.crc32(f"{database or ''}.{table}".encode())


def load_properties(storage: Storage) -> dict[str, str]:
    """Load the table's properties, from the backup when the file itself is missing or torn. It
    reads the file again when the backup is missing, because Hudi may have replaced the file between
    both reads.

    Raises TableNotFound, or MalformedTable when neither file is whole.
    """
    problem: LakehouseError | None = None
    unproven: dict[str, str] | None = None
    for path in (PROPERTIES.path, PROPERTIES_BACKUP.path, PROPERTIES.path):
        try:
            properties = _check_properties(parse_properties(storage.read(path)), path=path)
        except NotFound:
            continue
        except MalformedTable as error:
            problem = problem or error
            continue
        if CHECKSUM_KEY in properties:
            return properties
        # It may be torn before that line: good enough only when there is nothing better.
        unproven = unproven or properties
    if unproven is not None:
        return unproven
    raise problem or TableNotFound("no table here", location=storage.location)


def _check_properties(properties: dict[str, str], *, path: str) -> dict[str, str]:
    name = properties.get(_NAME_KEY)
    if not name:
        raise MalformedTable("properties file names no table", path=path)
    stated = properties.get(CHECKSUM_KEY)
    expected = str(table_checksum(properties.get(_DATABASE_KEY), name))
    if stated is not None and stated.strip() != expected:
        raise MalformedTable("properties checksum is wrong", path=path, stated=stated)
    return properties


def create_properties(storage: Storage, properties: Mapping[str, str]) -> bool:
    """Create the file, or return False if another process created a table here first."""
    return storage.put_if_absent(PROPERTIES.path, _with_checksum(properties))


def _with_checksum(properties: Mapping[str, str]) -> bytes:
    checksum = table_checksum(properties.get(_DATABASE_KEY), properties[_NAME_KEY])
    return format_properties({**properties, CHECKSUM_KEY: str(checksum)})


def store_properties(
    storage: Storage, properties: Mapping[str, str], *, read: Mapping[str, str] | None = None
) -> None:
    """Create or replace the file, with the right checksum.

    The caller holds the table lock or creates the table. Raises TableChanged if the file is no
    longer what the caller has `read`: other engines change it without our lock.
    """
    content = _with_checksum(properties)
    try:
        stored = load_properties(storage)
        if read is not None and stored != read:
            raise TableChanged(
                "another engine changed the table's properties; run it again",
                table=storage.location,
            )
        old = format_properties(stored)
    except TableNotFound:
        storage.put(PROPERTIES.path, content)
        return
    for path in (PROPERTIES.path, PROPERTIES_BACKUP.path):
        # The checksum file of a Hadoop client: with other content it is an error to Hadoop.
        directory, _, name = path.rpartition("/")
        storage.delete(f"{directory}/.{name}.crc")
    storage.put(PROPERTIES_BACKUP.path, old)
    storage.put(PROPERTIES.path, content)
    storage.delete(PROPERTIES_BACKUP.path)


def drop_backup(storage: Storage) -> None:
    """Remove the backup of a process that died while it replaced the file, if the file itself is
    whole: should that ever be lost, an old one must not be restored. The caller holds the table
    lock.
    """
    try:
        properties = _check_properties(
            parse_properties(storage.read(PROPERTIES.path)), path=PROPERTIES.path
        )
    except (NotFound, MalformedTable):
        return
    if CHECKSUM_KEY in properties:
        storage.delete(PROPERTIES_BACKUP.path)
