"""Options of reading files that a table keeps from one request to the next: a table whose files
come with `;` needs the option once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controlplane.errors import InvalidRequest
from controlplane.operations.overwrites import OVERWRITES
from controlplane.operations.source_places import to_stored_file
from controlplane.tables.models import Table
from controlplane.uploads.places import PREFIX
from workers.errors import InvalidInput
from workers.loading.options import (
    DECODED_KEY,
    FORMATS,
    OPTION_KEYS,
    load_options,
    options_as_text,
)
from workers.loading.source_files import get_kind
from workers.table_services.input_rows import PATH_KEY

_OF_ONE_FILE: Final = frozenset({"format", "compression", "columns", DECODED_KEY})
_OF_CSV: Final = frozenset({"key", "key_from"})
"""Files of other formats are refused with them."""
_USUAL: Final = {"missing": "NA"}


def with_kept_options(table: Table, source: Mapping[str, Any]) -> dict[str, Any]:
    """Return the source of a write with the options of the table's last file where it names none,
    each as a text; sources of other kinds as they are.

    Raises InvalidRequest for an option that is unknown or takes no such value.
    """
    if source.get("kind") not in FORMATS:
        return dict(source)
    requested = options_as_text(source)
    ignored = requested.keys() | (set() if source["kind"] == "csv" else _OF_CSV)
    stored = {name: value for name, value in table.load_options.items() if name not in ignored}
    for name, same in (("null_words", "missing"), ("missing", "null_words")):
        if name in requested:
            stored.pop(same, None)
    options = {**stored, **requested}
    try:
        load_options({**options, "format": source["kind"]})
    except InvalidInput as error:
        raise InvalidRequest(error.message, **error.values) from error
    return {**source, **options}


def is_unbounded(source: object) -> bool:
    """Return whether the source lets a file decode to any size."""
    return isinstance(source, Mapping) and bool(source.get(DECODED_KEY))


def build_job_source(table: Table, source: Mapping[str, Any]) -> dict[str, Any]:
    """Return the source of a job: with the table's options, and the stored file of an upload.

    Raises InvalidRequest, also for an upload that was removed.
    """
    return to_stored_file(with_kept_options(table, source))


def with_kept_parameters(
    table: Table, service: str, parameters: Mapping[str, str]
) -> dict[str, str]:
    """Return the parameters of a service with the kept options, where it reads files of rows. A
    file of keys to delete has its own key.

    Raises InvalidRequest as `with_kept_options` does.
    """
    path = parameters.get(PATH_KEY, "").strip()
    if not path:
        return dict(parameters)
    place = to_stored_file(parameters)[PATH_KEY] if path.startswith(PREFIX) else path
    kind = parameters.get("format") or get_kind(place) or "csv"
    merged = with_kept_options(table, {"kind": kind, **parameters})
    del merged["kind"]
    own = _OF_CSV if service == "delete" else frozenset[str]()
    return {name: value for name, value in merged.items() if name not in own or name in parameters}


def keep_parameters(table: Table, service: str, parameters: Mapping[str, str]) -> None:
    """Keep the options of a file that overwrites, for the next file of the table."""
    if service in OVERWRITES and (path := parameters.get(PATH_KEY, "").strip()):
        keep_options(table, {"kind": get_kind(path) or "csv", **parameters})


def keep_options(table: Table, source: Mapping[str, Any]) -> None:
    """Keep the options of a file that was asked for, for the next file of the table."""
    if source.get("kind") not in FORMATS:
        return
    named = {
        name: value
        for name, value in options_as_text(source).items()
        if name in OPTION_KEYS and name not in _OF_ONE_FILE and value != _USUAL.get(name)
    }
    if named and not named.items() <= table.load_options.items():
        options = {**table.load_options, **named}
        Table.objects.filter(pk=table.pk).update(load_options=options)
        table.load_options = options
