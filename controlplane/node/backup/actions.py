"""Back up the database of this node, and restore it. Table storage is not part of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from django.apps import apps
from django.contrib.sessions.models import Session
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from controlplane.audit.actions import do_record
from controlplane.audit.models import AuditHead
from controlplane.audit.shell import get_shell_user
from controlplane.connections.models import Connection
from controlplane.encryption import CHANNELS, CONNECTIONS, Seal, SealBroken
from controlplane.node.backup import archive, postgresql, sqlite
from controlplane.node.backup.archive import BackupFailed, Manifest
from controlplane.node.identity import read_identity
from controlplane.node.living import processes_of
from controlplane.node.migrating import HomeTooOld, migrate
from controlplane.node.places import Places
from controlplane.node.secrets_file import write_privately

_SEAL: Final = Seal(b"sluice backup", "the backup was made with another secret key")
_SEALED_TEXT: Final = "sluice"
_BY_VENDOR: Final[Mapping[str, ModuleType]] = {"sqlite": sqlite, "postgresql": postgresql}
Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class RestoreResult:
    manifest: Manifest
    has_secrets: bool
    """The backup's secrets were restored, so all that it sealed can be opened."""


def do_back_up(path: Path, places: Places, say: Say, *, with_secrets: bool) -> Manifest:
    """Write the backup. The node may run. Raises BackupFailed."""
    if path.exists():
        raise BackupFailed(f"{path} exists already: name another file, or move it")
    if not path.parent.is_dir():
        raise BackupFailed(f"{path.parent} is not a folder: create it, or name another place")
    if with_secrets and not places.secrets.is_file():
        raise BackupFailed(f"{places.secrets} does not exist: the secrets are in the environment")
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        files = {archive.DUMP: Path(folder) / archive.DUMP}
        say(f"copying the {connection.vendor} database")
        head = AuditHead.objects.first()
        migrations = _list_migrations()
        rows = _BY_VENDOR[connection.vendor].dump(files[archive.DUMP])
        if with_secrets:
            files[archive.SECRETS] = places.secrets
        manifest = Manifest(
            created_at=timezone.now().isoformat(timespec="seconds"),
            vendor=connection.vendor,
            migrations=migrations,
            rows=rows,
            audit_head=str(head) if head else "",
            sealed=_SEAL.close(_SEALED_TEXT),
        )
        say("checking the copy and writing the file")
        _BY_VENDOR[connection.vendor].check(files[archive.DUMP])
        complete = archive.write_archive(path, manifest, files)
    _record("node.backup", {"rows": sum(rows.values()), "has_secrets": with_secrets})
    return complete


def do_restore(path: Path, places: Places, say: Say, *, replaces: bool) -> RestoreResult:
    """Put the backup in the place of the node's database. Nothing is changed before the file, the
    node and the database have been checked. Raises BackupFailed.
    """
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=places.home) as folder:
        say("checking the file")
        manifest = archive.extract(path, Path(folder))
        _check_fits(path, manifest)
        dump = Path(folder) / archive.DUMP
        _BY_VENDOR[manifest.vendor].check(dump)
        check_nothing_runs(places)
        if not replaces and (tables := connection.introspection.table_names()):
            raise BackupFailed(
                f"the database is not empty ({len(tables)} tables): `--replace` puts the backup in "
                "its place"
            )
        has_secrets = _restore_secrets(Path(folder) / archive.SECRETS, places, say)
        say(f"restoring the {manifest.vendor} database of {manifest.created_at}")
        rows = _BY_VENDOR[manifest.vendor].load(dump, say)
    if rows != manifest.rows:
        raise BackupFailed("the restored tables have other numbers of rows than the backup: retry")
    try:
        migrate()
    except HomeTooOld as error:
        raise BackupFailed(str(error)) from error
    Session.objects.all().delete()  # A logout after the backup would not count.
    _record("node.restore", {"backup_of": manifest.created_at, "audit_head": manifest.audit_head})
    return RestoreResult(manifest, has_secrets)


def check_nothing_runs(places: Places) -> None:
    """Check that no process of this node runs, and that no other one uses the database. Raises
    BackupFailed.
    """
    identity = read_identity(places.identity)
    if identity is not None and (living := processes_of(places, identity)):
        raise BackupFailed(
            f"the node runs ({len(living)} processes): `manage.py down` stops it, systemd where it "
            "started it"
        )
    if users := _BY_VENDOR[connection.vendor].find_users():
        raise BackupFailed(
            f"the database is in use ({', '.join(users[:5])}): stop the nodes and programs that "
            "use it"
        )


def find_broken_seals() -> list[str]:
    """Return which restored connections and channels need their secrets again. Channels belong to
    an app above the node, so their model is asked for by name.
    """
    sealed: list[tuple[str, Seal, str]] = [
        (f"connection {row.name}", CONNECTIONS, row.sealed_secrets)
        for row in Connection.objects.exclude(sealed_secrets="")
    ]
    sealed += [
        (f"channel {channel.name}", CHANNELS, channel.sealed_address)
        for channel in apps.get_model("monitoring", "Channel")._default_manager.all()
    ]
    return [name for name, seal, text in sealed if not _opens(seal, text)]


def has_same_key(manifest: Manifest) -> bool:
    """Check whether this node has the secret key that the backup was made with."""
    return _opens(_SEAL, manifest.sealed)


def _opens(seal: Seal, text: str) -> bool:
    try:
        seal.open(text)
    except SealBroken:
        return False
    return True


def _list_migrations() -> list[str]:
    return sorted(".".join(key) for key in MigrationRecorder(connection).applied_migrations())


def _check_fits(path: Path, manifest: Manifest) -> None:
    """Check the kind of the database and the version of Sluice. Raises BackupFailed."""
    if manifest.vendor != connection.vendor:
        raise BackupFailed(
            f"{path} is of {manifest.vendor}, and SLUICE_DATABASE names {connection.vendor}: name "
            f"a database of {manifest.vendor}"
        )
    stored = MigrationLoader(None).disk_migrations
    former = {key for migration in stored.values() for key in migration.replaces}
    names = {".".join(key) for key in {*stored, *former}}
    if unknown := sorted(set(manifest.migrations) - names):
        raise BackupFailed(
            f"{path} was made by a newer Sluice (migration {unknown[0]}): upgrade, then restore"
        )


def _restore_secrets(secrets: Path, places: Places, say: Say) -> bool:
    """Restore secrets.json if the backup has one and the home has none. Return whether it did."""
    if not secrets.exists():
        return False
    if places.secrets.exists():
        say(f"  {places.secrets} stays; the backup's own secrets are not used")
        return False
    write_privately(places.secrets, secrets.read_text(encoding="utf-8"))
    say(f"  {places.secrets} restored")
    return True


def _record(what: str, details: Mapping[str, object]) -> None:
    do_record(who=get_shell_user(), what=what, subject="database", result="done", details=details)
