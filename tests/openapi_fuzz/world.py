"""The data that requests find: two tables of the people who have a role on these tables alone, two
that are hidden from them, and one person for each role. Whatever belongs to a hidden table carries
the mark `HIDDEN`, and values of rows carry `IN_ROWS` or `MASKED`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from django.contrib.auth.models import Group, User
from django.utils import timezone

from controlplane.accounts.models import Grant
from controlplane.accounts.tokens import create_token
from controlplane.audit.models import AuditEvent
from controlplane.mirror.sync import sync_table
from controlplane.monitoring.models import Alert, Channel
from controlplane.operations.actions import do_request_write
from controlplane.tables.actions import do_register_table
from controlplane.tables.models import MaskedColumn, RowGrant, Table
from tests.controlplane.approvals import awaiting
from tests.controlplane.left_out import leave_out
from tests.support.schedules import nightly
from tests.support.sinks import SINK
from tests.web.conftest import fill
from workers import create_table
from workers.sink.batch import BadRecord

HIDDEN = "hushh"
"""In every name, value, partition and user of the tables that most roles may not see."""
IN_ROWS = "rowvalue"
"""In every value of a column that is not masked."""
MASKED = "maskedvalue"
"""In every value of the masked column."""
OWN = "trips"
HIDDEN_SPACE = f"{HIDDEN}-space"
MARKS = (HIDDEN, IN_ROWS, MASKED)
_COLUMNS: list[pa.Field[Any]] = [
    pa.field("id", pa.string()),
    pa.field("ts", pa.int64()),
    pa.field("part", pa.string()),
    pa.field("city", pa.string()),
    pa.field("email", pa.string()),
]


@dataclass(frozen=True, slots=True)
class Role:
    """How a request is sent."""

    name: str
    token: str
    """Empty without a signed-in user."""
    forbidden: tuple[str, ...]
    """Marks that no answer to it may hold."""
    is_admitted: bool
    """Whether any request that reads something succeeds."""


@dataclass(frozen=True, slots=True)
class World:
    roles: tuple[Role, ...]
    own: Mapping[str, tuple[Any, ...]]
    """Name of what a request takes -> what there is of it that the roles of one table may see."""
    hidden: Mapping[str, tuple[Any, ...]]
    """The same of the hidden tables."""
    traces: frozenset[str] = field(default_factory=frozenset)
    """What names something of a hidden table and carries no mark, such as ids of operations."""


def source_root(root: Path, namespace: str) -> Path:
    """Where the operators of a namespace may load files from; `root` is that of the tables."""
    return root.parent / "sources" / namespace


def make_world(root: Path) -> World:
    """Create the tables below `root`, and the people."""
    admin = _person("ada", "admin")
    keeper = _person(f"{HIDDEN}-keeper", None)
    Grant.objects.create(
        user=keeper, namespace=HIDDEN_SPACE, role="admin", granted_by=keeper.username
    )
    own = _lake(root, OWN, f"{IN_ROWS}-own", MASKED, "default", admin)
    rides = fill("rides", admin)
    vault_rows = f"{HIDDEN}-{IN_ROWS}", f"{HIDDEN}-{MASKED}"
    vault = _lake(root, f"{HIDDEN}-vault", *vault_rows, HIDDEN_SPACE, keeper)
    ads = fill(f"{HIDDEN}-ads", keeper, text=HIDDEN)
    ads.namespace = HIDDEN_SPACE
    ads.save()
    own_things = _list_things(own, rides, admin)
    hidden_things = _list_things(vault, ads, keeper)
    traces = {
        str(key)
        for table in (vault, ads)
        for keys in (
            table.operations.values_list("pk", flat=True),
            table.file_groups.values_list("file_id", flat=True),
        )
        for key in keys
    }
    return World(
        roles=_roles(own, rides, keeper, vault, admin),
        own=own_things,
        hidden=hidden_things,
        traces=frozenset(traces - {HIDDEN}),
    )


def _roles(own: Table, rides: Table, keeper: User, vault: Table, admin: User) -> tuple[Role, ...]:
    of_tables = {}
    for name in ("viewer", "operator", "admin"):
        of_tables[name] = _person(f"{name}-of-trips", None)
        for table in (own, rides):
            Grant.objects.create(user=of_tables[name], table=table, role=name, granted_by="ada")
    RowGrant.objects.create(user=of_tables["operator"], table=own, right="rows")
    crew = Group.objects.create(name="crew")
    for table in (own, rides):
        Grant.objects.create(group=crew, table=table, role="operator", granted_by="ada")
    member = _person("mia", None)
    member.groups.add(crew)
    hidden_crew = Group.objects.create(name=f"{HIDDEN}-crew")
    hidden_crew.user_set.add(keeper)
    Grant.objects.create(group=hidden_crew, table=vault, role="viewer", granted_by=keeper.username)
    RowGrant.objects.create(group=hidden_crew, table=vault, right="rows")
    create_token(keeper, scope="read", name=f"{HIDDEN}-token")
    people = {
        "user without a role": (_person("nora", None), MARKS),
        "viewer of the table": (of_tables["viewer"], MARKS),
        "operator of the table": (of_tables["operator"], (HIDDEN, MASKED)),
        "admin of the table": (of_tables["admin"], (HIDDEN,)),
        "operator by a group": (member, MARKS),
        "auditor": (_person("abel", "auditor"), (IN_ROWS, MASKED)),
        "admin": (admin, ()),
    }
    return (
        Role("anonymous", "", MARKS, is_admitted=False),
        *(
            Role(
                name,
                create_token(user, scope="administer")[1],
                forbidden,
                name != "user without a role",
            )
            for name, (user, forbidden) in people.items()
        ),
    )


def _lake(root: Path, slug: str, value: str, masked: str, namespace: str, by: User) -> Table:
    """A table in storage with two commits, dead letters and a sink."""
    created = create_table(
        root / slug,
        name=slug,
        schema=pa.schema(_COLUMNS),
        record_key=["id"],
        ordering=["ts"],
        partition_by=["part"],
        table_type="MERGE_ON_READ",
    )
    row = {"id": value, "ts": 1, "part": f"{slug}-part", "city": value, "email": masked}
    for at in range(2):
        batch = [{**row, "id": f"{value}-{at}"}]
        created.write(pa.Table.from_pylist(batch, schema=pa.schema(_COLUMNS)))
    table = do_register_table(
        location=str(root / slug), slug=slug, name=slug, namespace=namespace, by=by
    )
    letter = BadRecord(7, value.encode(), masked.encode(), "not JSON")
    leave_out(table, (letter,), row)
    table.refresh_from_db()
    MaskedColumn.objects.create(table=table, path="email")
    return table


def _list_things(lake: Table, filled: Table, by: User) -> dict[str, tuple[Any, ...]]:
    """Everything of these two that a request can name, by the names of members."""
    now = timezone.now()
    folder = source_root(Path(lake.location).parent, lake.namespace)
    file = str(folder / "new.csv")
    folder.mkdir(parents=True)
    Path(file).write_text(f"id,ts,part,city,email\n1,1,{lake.slug}-part,{lake.slug},\n")
    written = do_request_write(
        table=lake, parameters={"source": {"kind": "csv", "path": file}}, by=by
    )
    alert = Alert.objects.create(
        table=lake, check_name="mirror", verdict="bad", sentence=lake.slug,
        unwell_at=now, fired_at=now,
    )  # fmt: skip
    channel = Channel.objects.create(name=lake.slug, kind="mail", group_s=0, severity_min="info")
    sync_table(lake)
    instants = [
        *lake.instants.values_list("requested_at", flat=True),
        *filled.conflicts.values_list("loser_instant", flat=True)[:1],
    ]
    files = [str(path) for path in Path(lake.location).glob("*/*.parquet")]
    assert files
    operations = (
        str(written.pk),
        *(str(key) for key in filled.operations.values_list("pk", flat=True)),
    )
    slugs = (lake.slug, lake.slug, filled.slug)
    return {
        "slug": slugs, "table": slugs, "tables": slugs, "namespace": (lake.namespace,),
        "requested_at": tuple(instants), "instant": tuple(instants), "instants": tuple(instants),
        "operation_id": operations, "operation": operations, "operations": operations,
        "approval_id": (str(awaiting(lake).pk),),
        "sink_id": (SINK,), "sink": (SINK,),
        "file_id": tuple(lake.file_groups.values_list("file_id", flat=True)),
        "partition": (f"part={lake.slug}-part", f"{lake.slug}-part"),
        "event_id": (AuditEvent.objects.latest("pk").pk,),
        "schedule_id": (str(nightly(lake, by, file).pk),),
        "alert_id": (alert.pk,), "alerts": (alert.pk,),
        "channel_id": (channel.pk,),
        "username": (by.username,), "user": (by.username,),
        "service": ("compaction", "clean", "delete", "insert_overwrite"),
        "check": ("mirror",), "threshold": ("skew",), "action": ("rollback", "restore"),
        "path": (file, *files), "location": (lake.location,),
        "source": (
            *({"kind": "parquet", "path": path} for path in files),
            {"kind": "csv", "path": file},
            {"kind": "sql", "statement": f'SELECT * FROM "{lake.slug}"'},
        ),
        "statement": (f'SELECT * FROM "{lake.slug}"', f'SELECT count(*) FROM "{lake.slug}"'),
        "parameters": (
            {"predicate": "ts >= 0"}, {"path": file}, *({"path": path} for path in files),
            {"source": {"kind": "sql", "statement": f'SELECT * FROM "{lake.slug}"'}},
        ),
        "predicate": ("ts >= 0",), "where": ("ts >= 0",),
    }  # fmt: skip


def _person(name: str, role: str | None) -> User:
    person = User.objects.create_user(name)
    if role is not None:
        person.groups.add(Group.objects.get(name=role))
    return person
