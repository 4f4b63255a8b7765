"""Messages about what happened to tables: errors, reasons and lines of logs.

They are stored whole, without secrets (`workers.masking`), and may hold values of rows. Everything
that shows one asks here. A reader who sees every value of the rows concerned gets it whole. All
others, and every channel, get the error class, Sluice's own sentence and the kind of cause.

What is kept for them follows the grammar of Sluice's own errors, `code: sentence: name=value ...`,
up to the first part that may hold a value. The text of a foreign error may hold one anywhere, so
only its class is repeated, and well-known causes are named in our own words.
"""

from __future__ import annotations

import builtins
import re
from typing import Final

import workers.errors
from controlplane.tables.masks import MASK

_ERROR_CLASSES: Final = {
    name for name, of in vars(workers.errors).items() if isinstance(of, type)
} | {"Committed", "Stale", "CommitFailed", "CommitUnknown"}
"""Sluice's own: a sentence of ours follows."""
_FOREIGN_CLASSES: Final = {
    name
    for name, of in vars(builtins).items()
    if isinstance(of, type) and issubclass(of, BaseException)
} | {
    *("ArrowException", "ArrowInvalid", "ArrowKeyError", "ArrowNotImplementedError"),
    *("ArrowTypeError", "AnalysisException", "Py4JJavaError", "PythonException"),
    *("SparkConnectGrpcException", "SparkException", "SparkRuntimeException"),
}
"""Those that are repeated where they follow another class."""
_OWN_LOGGERS: Final = ("workers", "controlplane", "control_plane", "web", "uncaught", "log")
_TRACEBACK: Final = "Traceback (most recent call last):"
_BREAK: Final = re.compile(r"\n|\\n|\\x0a")
_LEAD: Final = re.compile(
    r"(?:its worker [a-z]+ \w+|\w+ -> \w+|\w+ \d+\.\.\d+, \d+ records"
    r"|failed|[a-z]+(?:_[a-z]+)+|(?P<own>[A-Z]\w*)): "
)
"""What may precede a sentence; `own` only if it is of `_ERROR_CLASSES`."""
_CLASS: Final = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Z]\w*): ")
"""An error that is not Sluice's own begins with its class: it may contain anything."""
_INNER_CLASS: Final = re.compile(
    r"\(?((?:java|javax|scala|org\.apache|pyspark|pyarrow|py4j)(?:\.[\w$]+)+|[A-Z]\w*)(?:\) |: )"
)
_NAMED: Final = re.compile(r"(?<=[ :])([a-z_]+)=")
_OPTION: Final = re.compile(r"(?:hoodie|sluice|spark|kafka)\.[\w.]+")
_OF_NO_ROW: Final = frozenset(
    {
        *("advice", "allowed", "at", "brokers", "bytes", "bytes_max", "by", "code", "column"),
        *("columns", "directory", "kafka", "protocol"),
        *("endpoint", "expected", "fields", "file", "file_groups", "file_id", "files", "group"),
        *("groups", "host", "instant", "instants", "kind", "known", "least", "location"),
        *("missing", "most", "name", "needs", "offset", "operation", "partition", "partitions"),
        *("partition_by", "path", "paths", "pid", "record_key", "remote", "rival", "rows"),
        *("rows_max", "service", "sink", "state", "stream", "streams", "suffix", "table"),
        *("tables", "topic", "tries", "type", "types", "until", "url", "version", "winner"),
        "writer",
    }
)
"""Names whose values never come from a row."""
_NOT_OF_TYPE: Final = "a value does not fit the type of its column"
_CAUSES: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), cause)
    for pattern, cause in (
        (r"out ?of ?memory|java heap space|memoryerror|gc overhead", "it ran out of memory"),
        (r"no space left", "no space is left on the disk"),
        (r"no such file|filenotfound|nosuchfile|path_not_found", "a file was not found"),
        (r"permission denied|permissionerror|access ?denied", "permission was denied"),
        (r"connection ?refused|econnrefused", "the connection was refused"),
        (r"timed out|timeout|deadline_exceeded", "it timed out"),
        (r"unresolved_column|column not found|no such column", "a column was not found"),
        (r"table_or_view_not_found", "a table was not found"),
        (r"cast_invalid_input|numberformat|cannot_parse|datetimeparse", _NOT_OF_TYPE),
        (r"could not convert|cannot be cast|invalid literal|error parsing", _NOT_OF_TYPE),
        (r"overflow|value_out_of_range|out of (?:range|bounds)", "a number is out of range"),
        (r"divide_by_zero|division by zero", "a division by zero"),
        (r"not_null|null ?pointer|nulls? (?:in|value)", "a value is missing"),
        (r"duplicate", "a value is there twice"),
        (r"not json", "a record is not JSON"),
    )
)


def select_message(message: str, *, is_whole: bool) -> str:
    """Return the message as a reader sees it. `is_whole`: they see every value of the rows of all
    tables that it may speak of (`RowAccess.sees_all`, `row_access.whole_tables`).
    """
    return message if is_whole else mask_message(message)


def select_log_line(message: str, source: str, *, is_whole: bool) -> str:
    """Return a line of a log as a reader sees it. `source`: the logger. Only Sluice's own loggers
    write sentences of ours.
    """
    if is_whole:
        return message
    is_own = source.partition(".")[0] in _OWN_LOGGERS
    return mask_message(message) if is_own else mask_foreign(message)


def mask_message(message: str) -> str:
    """Return what went wrong without anything that may be a value of a row."""
    end = _end_of_own_words(message)
    return message if end == len(message) else message[:end] + mask_foreign(message[end:])


def _end_of_own_words(message: str) -> int:
    """Return where the first part begins that may hold a value."""
    limit = min(
        [len(message), *(match.start() for match in [_BREAK.search(message)] if match)]
        + [at for at in [message.find(_TRACEBACK)] if at >= 0]
    )
    at = 0
    while lead := _LEAD.match(message, at, limit):
        if lead["own"] and lead["own"] not in _ERROR_CLASSES:
            break
        at = lead.end()
    if _CLASS.match(message, at, limit):
        return at
    behind_sentence = message.find(": ", at, limit)
    first_name = _NAMED.search(message, at, limit)
    if behind_sentence >= 0 and (first_name is None or behind_sentence < first_name.start()):
        at = behind_sentence + 2
        if not _NAMED.match(message, at, limit):
            return at
    for named in _NAMED.finditer(message, at, limit):
        is_option = named[1] == "key" and _OPTION.match(message, named.end())
        if named[1] not in _OF_NO_ROW and not is_option:
            return named.end()
    return limit


def mask_foreign(text: str) -> str:
    """Return the mask for a text that is not Sluice's own. It comes with the classes of the errors
    that the text begins with, the last place in the code of a traceback, and the kind of cause if
    it is a well-known one.
    """
    place = ""
    if text.lstrip("\\nx0a ").startswith(_TRACEBACK):
        text, place = _split_traceback(text)
    classes = []
    if named := _CLASS.match(text):
        classes.append(named[1])
        text = text[named.end() :]
        while (inner := _INNER_CLASS.match(text)) and _is_repeatable(inner[1]):
            classes.append(inner[1].rpartition(".")[2])
            text = text[inner.end() :]
    cause = next(
        (cause for known, cause in _CAUSES if known.search(" ".join([*classes, text]))), ""
    )
    notes = "; ".join(note for note in (cause, place) if note)
    return "".join(f"{name}: " for name in classes) + MASK + (f" ({notes})" if notes else "")


def _is_repeatable(name: str) -> bool:
    return "." in name or name in _FOREIGN_CLASSES


def _split_traceback(text: str) -> tuple[str, str]:
    """Return the error that a traceback ends with, and its last place in the code. Frames are
    indented, so a text that resembles one follows the error at the earliest.
    """
    lines = _BREAK.split(text[text.index(_TRACEBACK) :])[1:]
    frames = 0
    while frames < len(lines) and lines[frames].startswith("  "):
        frames += 1
    places = re.findall(r'  File "[^"]*?([\w.-]+\.py)", line (\d+)', "\n".join(lines[:frames]))
    place = f"{places[-1][0]}, line {places[-1][1]}" if places else ""
    return "\n".join(lines[frames:]), place
