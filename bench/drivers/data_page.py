"""Driver that opens the page Data of a large table, as its user's browser does."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import django

from bench.drivers.serving import Job, serve

_SLUG: Final = "large"
_PARTS: Final = 10
_FILE_GROUPS_EACH: Final = 2


def fill(location: str, rows: int) -> int:
    """Write and register a table of ten partitions with two file groups each. Return its size in
    bytes.
    """
    import numpy as np
    import pyarrow as pa
    from django.contrib.auth.models import Group, User

    from controlplane.mirror.sync import sync_table
    from controlplane.tables.actions import do_register_table
    from workers import create_table
    from workers.storage.local import LocalStorage

    fields: list[pa.Field[Any]] = [
        pa.field("id", pa.int64()),
        pa.field("reading", pa.float64()),
        pa.field("city", pa.string()),
        pa.field("part", pa.string()),
    ]
    schema = pa.schema(fields)
    table = create_table(
        location,
        name=_SLUG,
        schema=schema,
        record_key=["id"],
        partition_by=["part"],
        options={"hoodie.bucket.index.num.buckets": str(_FILE_GROUPS_EACH)},
    )
    cities = pa.array(["Oslo", "Kiel", "Turku"])
    each = rows // _PARTS
    for part in range(_PARTS):
        ids = np.arange(part * each, (part + 1) * each)
        columns = [
            pa.array(ids),
            pa.array(ids * 0.5),
            cities.take(ids % len(cities)),
            pa.repeat(pa.scalar(f"p{part}"), each),
        ]
        table.write(pa.table(columns, schema=schema), operation="bulk_insert")
    admin = User.objects.create_user("bench")
    admin.groups.add(Group.objects.get(name="admin"))
    sync_table(do_register_table(location=location, slug=_SLUG, name=_SLUG, by=admin))
    return sum(file.size for file in LocalStorage(location).list_tree(""))


def open_page(path: str) -> dict[str, int]:
    """Request the page and then its part, as a browser does. Return the rows on it, and the most
    bytes that a process that read for it had.
    """
    from django.contrib.auth.models import User
    from django.test import Client

    from controlplane.rows import actions

    names = vars(actions)
    read = names["run_job"]
    peaks: list[int] = []

    def read_and_note(*job: Any, **bounds: Any) -> Any:
        answer = read(*job, **bounds)
        peaks.append(answer.head["peak_bytes"])
        return answer

    names["run_job"] = read_and_note
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(User.objects.get(username="bench"))
    frame, _, query = path.partition("?")
    try:
        answers = [client.get(path), client.get(f"{frame}/{_PARTS_OF[frame]}?{query}")]
    finally:
        names["run_job"] = read
    for answer in answers:
        if answer.status_code != HTTPStatus.OK:
            raise ValueError(f"{path}: {answer.status_code}")
    return {"rows": answers[1].content.count(b"row-tools"), "peak_bytes": max(peaks)}


_PARTS_OF: Final = {f"/t/{_SLUG}/data": "rows", f"/t/{_SLUG}/data/plan": "part"}


def jobs() -> dict[str, Job]:
    django.setup()
    return {"fill": fill, "open": open_page}


if __name__ == "__main__":
    serve(jobs)
