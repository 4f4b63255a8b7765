"""`manage.py table validate`: whether Hudi's metadata table of a table says what storage has."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.mirror.storage import engine_table
from controlplane.tables.models import Table
from workers.errors import MalformedTable
from workers.table_services.validation import validate


def validate_metadata(table: Table, say: Callable[[str], object]) -> None:
    """Say every difference. Raises MalformedTable where there is one, ServiceRefused, ServiceBusy,
    StorageFailed, UnsupportedTable.
    """
    validation = validate(engine_table(table))
    for difference in validation.differences:
        say(str(difference))
    if validation.unsettled:
        say(f"{validation.unsettled} listed files are missing while a service deletes files")
    if not validation.is_sound:
        raise MalformedTable(
            "the metadata table does not match storage: delete it (one Hudi write with "
            "hoodie.metadata.enable=false) and let Hudi rebuild it",
            files=validation.files,
            differing=len(validation.differences),
        )
    say(
        f"compared {validation.files} files in {validation.partitions} partitions: the "
        "metadata table matches storage"
    )
