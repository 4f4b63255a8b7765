"""Who loads which files of rows (threat T29). What lies below a source root belongs to the root's
namespace: operators of a table in it load it. Below a root without a namespace those do who operate
every table. What lies in a table is no source for anyone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet

from controlplane.errors import InvalidRequest
from controlplane.tables.access import (
    Permission,
    may_everywhere,
    may_in_namespace,
    visible_tables,
)
from controlplane.tables.deceptive import refuse_deceptive
from controlplane.tables.locations import LOCATION_CHARS_MAX
from controlplane.tables.models import Table
from controlplane.uploads.places import is_upload
from controlplane.uploads.queries import find_upload, get_place, name_file
from workers.errors import InvalidInput
from workers.loading.source_files import SourceFile, find_named_places, find_source_files
from workers.locations import (
    SourceRoot,
    folders_above,
    is_bucket_location,
    resolve_location,
    source_root,
)
from workers.storage.source_places import (
    IN_A_TABLE,
    LETTERS_SUFFIX,
    OUTSIDE,
    check_below_a_source_root,
    check_in_no_table,
    resolve_source,
)
from workers.table_services.input_rows import PATH_KEY


def checked_rows_place(path: str, by: User | None) -> str:
    """The resolved place of a file that `by` may load rows from; without a person, one that some
    person may. Asks no bucket: call `check_in_no_table` before you open an object. An upload,
    `upload:<id>`, is loaded by its owner alone.

    Raises InvalidRequest: below no source root, below one of a namespace that `by` does not
    operate, in a table, or no file's name.
    """
    if len(path) > LOCATION_CHARS_MAX:
        raise InvalidRequest("the name of the source file is too long", path=path[:200])
    if is_upload(path):
        return get_place(find_upload(path, by))
    refuse_deceptive(path)
    with _as_a_request(path):
        place = resolve_source(path)
        refuse_deceptive(place)  # A link may lead to another name.
        sources = [source_root(root) for root in settings.SLUICE_SOURCE_ROOTS]
        tables = [resolve_location(root) for root in settings.SLUICE_TABLE_ROOTS]
        roots = check_below_a_source_root(place, sources, tables)
        if by is not None and not any(_is_open_to(by, root) for root in roots):
            # The same error for a root of another namespace and for none: it reveals no root.
            raise InvalidInput(OUTSIDE)
        _check_registered(place)
        if not is_bucket_location(place):
            check_in_no_table(place)
    return place


def to_stored_file(part: Mapping[str, Any]) -> dict[str, Any]:
    """Return the source of a write, or the parameters of a service, with the stored file in place
    of an upload. Who may use it was checked before. Raises InvalidRequest for one that is removed.
    """
    path = part.get(PATH_KEY)
    if part.get("connection") or not isinstance(path, str) or not is_upload(path.strip()):
        return dict(part)
    return {**part, PATH_KEY: get_place(find_upload(path.strip(), None))}


def find_rows_files(path: str, by: User | None, kind: str = "") -> list[SourceFile]:
    """The files that a path names for `by`: one, a folder, or a pattern of names, each as
    `checked_rows_place` checks it. An upload has the name that its user gave it.

    Raises InvalidRequest, also where nothing matches or the files differ in format; StorageFailed.
    """
    with _as_a_request(path):
        files = find_source_files(path, lambda named: checked_rows_place(named, by), kind=kind)
    return [SourceFile(name_file(file.path), file.place) for file in files]


def check_rows_files(path: str, by: User | None) -> None:
    """Refuse, as InvalidRequest, a path that `find_rows_files` refuses for the place of its
    folder or of a file. Nothing has to be there yet, and no bucket is asked.
    """
    is_here = not is_bucket_location(path)
    find_named_places(path, lambda named: checked_rows_place(named, by), is_here=is_here)


def check_source_files(
    parameters: Mapping[str, str], by: User | None, *, is_shell: bool = False
) -> None:
    """Refuse, as InvalidRequest, parameters of a service that name files which `by` may not load.
    A shell may name any file outside of tables. Raises StorageFailed.
    """
    path = parameters.get(PATH_KEY, "").strip()
    if not path:
        return

    def check(named: str) -> str:
        return checked_file_of_shell(named) if is_shell else checked_rows_place(named, by)

    with _as_a_request(path):
        files = find_source_files(path, check)
        if is_bucket_location(files[0].place):
            check_in_no_table(files[0].place)


def checked_source(path: str, by: User | None) -> str:
    """As `checked_rows_place`, of the node's own files alone."""
    if is_bucket_location(path):
        raise InvalidRequest("expected a file of the node, not an object in a bucket", path=path)
    return checked_rows_place(path, by)


def checked_file_of_shell(path: str) -> str:
    """The resolved path of a file that a shell names. A shell may read every file of this machine,
    but a table's files are not its rows: older versions lie beside them. Needs no database, as a
    first write has none.

    Raises InvalidRequest.
    """
    with _as_a_request(path):
        place = resolve_source(path)
        check_in_no_table(place)
    return place


def _is_open_to(by: User, root: SourceRoot) -> bool:
    if may_everywhere(by, Permission.OPERATE):
        return True
    if not root.namespace:
        return False
    if may_in_namespace(by, Permission.OPERATE, root.namespace):
        return True
    return visible_tables(by, Permission.OPERATE).filter(namespace=root.namespace).exists()


def tables_above(place: str) -> QuerySet[Table]:
    """The registered table in which a resolved place lies, or in whose dead letters."""
    above = [place, *folders_above(place)]
    letters = [folder.removesuffix(LETTERS_SUFFIX) for folder in above]
    return Table.objects.filter(location__in=[*above, *letters])


def _check_registered(place: str) -> None:
    """Also for a table whose files are not there yet, or lie below what is no table root any more.

    Raises InvalidInput.
    """
    if tables_above(place).exists():
        raise InvalidInput(IN_A_TABLE)


@contextmanager
def _as_a_request(path: str) -> Iterator[None]:
    """What is refused names the path as it came, and not where its links lead."""
    try:
        yield
    except InvalidInput as error:
        raise InvalidRequest(error.message, **{**error.values, "path": path[:200]}) from error
