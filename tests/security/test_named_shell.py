"""Commands of the shell in the name of a user: the audit and operations show that name, and the
command may do what the user may. Without a name it is the shell, under the name on this machine.
"""

from __future__ import annotations

import getpass
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.management import CommandError, call_command
from django.utils import timezone

from controlplane.accounts.models import Grant
from controlplane.accounts.tokens import create_token
from controlplane.audit.models import AuditEvent
from controlplane.audit.shell import act_as
from controlplane.errors import InvalidRequest
from controlplane.node.shell.identity import CHECKED, begin
from controlplane.operations.models import Operation, Schedule
from controlplane.tables.models import Table
from tests.controlplane.lake import Lake
from tests.support.schedules import nightly

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def nobody_named() -> Iterator[None]:
    yield
    act_as("")


@pytest.fixture
def pia(lake: Lake) -> User:
    """An operator of the table trips, and of nothing else."""
    pia = User.objects.create_user("pia")
    Grant.objects.create(user=pia, table=lake.row, role="operator", granted_at=timezone.now())
    return pia


def run(*words: str, by: str = "") -> str:
    begin(by, command=words[0])
    output = StringIO()
    call_command(*words, stdout=output, stderr=StringIO())
    return output.getvalue()


def test_audit_and_operations_show_the_named_user(lake: Lake, pia: User) -> None:
    run("table", "savepoint", "trips", "--yes", by="pia")

    operation = Operation.objects.get(kind="service")
    recorded = AuditEvent.objects.filter(what="service.savepoint")
    assert operation.requested_by == pia
    assert set(recorded.values_list("who", flat=True)) == {"pia"}


def test_without_a_name_the_audit_shows_who_has_the_shell(lake: Lake, root: Path) -> None:
    Table.objects.all().delete()
    run("table", "register", lake.row.location, "--slug", "again")
    run("table", "savepoint", "again", "--yes")

    who = set(AuditEvent.objects.filter(object="again").values_list("who", flat=True))
    assert who == {f"{getpass.getuser()} (shell)"}


FORBIDDEN = """
table rename trips --name New
table mask trips city
table unregister trips --yes
table register /lake/x --slug x
table create /lake/x --slug x --column id --record-key id
table delete trips city='Oslo'
table show trips
rollback trips {instant} --yes
grant give admin --user pia --table trips
grant take {grant}
user create eve --role admin
user password ada
token create ada
token list ada
schedule add trips nightly --as ada --every-s 60
sink reset trips --topic t --set bootstrap.servers=b:9092 --to earliest --yes
sql SELECT_*_FROM_trips
sql DELETE_FROM_trips_WHERE_city='Oslo'
audit export
sync trips --rebuild
flush --no-input
down
"""

NAMES_THE_RIGHT = (
    r"requires? the \w+ (role|or \w+ role)|needs the right to read rows|grant \d+ not found|owner"
    r"|only for yourself"
)


def test_named_user_may_no_more_than_on_pages(synced: Table, pia: User, admin: User) -> None:
    values = {
        "instant": synced.instants.latest("requested_at").requested_at,
        "grant": Grant.objects.get(user=pia).pk,
    }
    before = AuditEvent.objects.count()

    allowed = {}
    for line in FORBIDDEN.strip().splitlines():
        words = [word.replace("_", " ") for word in line.format(**values).split()]
        try:
            run(*words, by="pia")
            allowed[line] = "done"
        except (CommandError, PermissionDenied) as error:
            if not re.search(NAMES_THE_RIGHT, str(error)):
                allowed[line] = str(error)

    assert allowed == {}
    assert AuditEvent.objects.count() == before
    assert Table.objects.filter(slug="trips", name=synced.name).exists()


def test_named_user_changes_what_is_theirs(lake: Lake, pia: User, admin: User) -> None:
    own = nightly(lake.row, pia)
    other = create_token(admin, scope="read")[0]
    token = create_token(pia, scope="read")[0]

    run("schedule", "delete", str(own.pk), by="pia")
    run("token", "revoke", "pia", token.token_key, by="pia")
    with pytest.raises(CommandError, match="has no token"):
        run("token", "revoke", "ada", other.token_key, by="pia")

    assert not Schedule.objects.exists()
    recorded = AuditEvent.objects.filter(what__in=("schedule.delete", "token.revoke"))
    assert set(recorded.values_list("who", flat=True)) == {"pia"}


def test_unknown_or_locked_user_is_refused(lake: Lake, pia: User) -> None:
    User.objects.filter(pk=pia.pk).update(is_active=False)
    for name in ("pia", "stranger"):
        with pytest.raises(InvalidRequest, match="no active user has this name"):
            begin(name, command="table")
        act_as("")


def test_every_command_that_is_not_checked_is_for_admins(pia: User, admin: User) -> None:
    for command in ("up", "down", "sync", "mirror", "migrate", "flush", "shell"):
        assert command not in CHECKED
        with pytest.raises(PermissionDenied, match="requires the admin role everywhere"):
            begin("pia", command=command)
        begin("ada", command=command)


@pytest.mark.slow
@pytest.mark.parametrize("by_variable", [False, True])
def test_entry_point_refuses_a_name_that_no_user_has(tmp_path: Path, by_variable: bool) -> None:
    environment = {**os.environ, "SLUICE_HOME": str(tmp_path), "SLUICE_SECRET_KEY": "k" * 60}
    environment |= {"DJANGO_SETTINGS_MODULE": "controlplane.settings.test"}
    named = [] if by_variable else ["--as", "stranger"]
    environment |= {"SLUICE_AS": "stranger"} if by_variable else {}

    ended = subprocess.run(
        [sys.executable, "manage.py", *named, "table", "list"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert ended.returncode != 0
    assert "no active user has this name" in ended.stderr or "database" in ended.stderr
