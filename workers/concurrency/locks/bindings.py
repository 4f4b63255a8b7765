"""The lock of a table: the first writer that names a provider binds the table to it.

Writers with different locks do not exclude each other. So `.hoodie/.sluice/lock_provider.json`
records the provider, without passwords. A writer that names none uses that one; a writer that names
another one is rejected. The file is changed only under the lock that it names, and each holder
reads it again. Without the file it is the storage lease.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from workers.errors import InvalidInput, MalformedTable, NotFound
from workers.json_text import read_json
from workers.locations import is_bucket_location
from workers.options.lock_options import (
    FILESYSTEM_PATH,
    PROVIDER,
    URL,
    URL_VARIABLE,
    LockProvider,
    LockSettings,
    LockUrl,
)
from workers.storage.base import Storage, Tagged
from workers.table_layout import HOODIE, LOCK_BINDING

NODE_VARIABLE = "SLUICE_NODE"
"""In the environment of every process of a node."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The lock that a table has. Without arguments: the storage lease, which an unbound table
    has.
    """

    provider: str = LockProvider.STORAGE
    url: str = ""
    """Without its password."""
    key: str = ""
    """What the table is called in a database or in Redis: where its first writer saw it."""
    directory: str = ""
    expire_minutes: int = 0
    pause_ms: int = 0
    process: str = ""
    """`<host>/<pid>/<started>` of the one process that an in-process lock is for."""

    def encode(self) -> bytes:
        """Return the content of the file at `LOCK_BINDING.path`."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @property
    def is_orphaned(self) -> bool:
        """True if its process has ended, and with it the lock in its memory."""
        host, _, rest = self.process.partition("/")
        pid, _, started = rest.partition("/")
        if not pid.isdecimal() or host != socket.gethostname():
            return False
        return _get_start_time(int(pid)) != started

    def check(self, settings: LockSettings, storage: Storage) -> None:
        """Compare with the lock that `settings` name. Raises InvalidInput if `settings` name
        another lock; the error contains the options to use instead.
        """
        if settings.provider is not None and settings.provider != self.provider:
            raise self._refusal(f"{PROVIDER}={self.provider}", settings.provider)
        if settings.directory and Path(settings.directory) != Path(self.directory):
            raise self._refusal(f"{FILESYSTEM_PATH}={self.directory}", settings.directory)
        is_named = settings.provider is not None and settings.url is not None and self.url
        if is_named and settings.url is not None and settings.url.redacted != self.url:
            raise self._refusal(f"{URL}={self.url} with its password", settings.url.redacted)
        if self.process and self.process != this_process():
            raise InvalidInput(
                "the table is locked inside another process: in-process locks are for writers that "
                f"are threads of one; end that process, or have all of them name another {PROVIDER}"
                " after removing the file below",
                process=self.process,
                file=f"{storage.location}/{LOCK_BINDING.path}",
            )

    def _refusal(self, write: str, value: str) -> InvalidInput:
        return InvalidInput(
            "the writers of this table use another lock, and two locks keep nobody apart; to "
            f"change it stop all writers and remove {LOCK_BINDING.path} of the table",
            given=value,
            write=write,
        )

    def address(self, settings: LockSettings, environment: Mapping[str, str]) -> LockUrl:
        """Return the address of the record, with the password if this process has one.

        Raises InvalidInput in a process of a node for a server that only the table names: a user
        who may write a table's files must not choose the servers that a node connects to.
        """
        configured = environment.get(URL_VARIABLE, "")
        for url in (settings.url, LockUrl(configured) if configured else None):
            if url is not None and url.redacted == self.url:
                return url
        if environment.get(NODE_VARIABLE):
            raise InvalidInput(
                "the table is locked at a server that this node was not told of; if it is yours, "
                f"give its address to the node as {URL_VARIABLE}",
                server=self.url,
            )
        return LockUrl(self.url)


def binding_for(settings: LockSettings, storage: Storage) -> Binding:
    """Return the binding of a table to the provider that `settings` name.

    Raises InvalidInput if the table has no directory for Hudi's lock file, and none is named.
    """
    assert settings.provider is not None
    provider = settings.provider
    if provider in (LockProvider.DATABASE, LockProvider.REDIS):
        assert settings.url is not None
        return Binding(provider, url=settings.url.redacted, key=storage.location)
    if provider is LockProvider.FILESYSTEM:
        if is_bucket_location(storage.location) and not settings.directory:
            raise InvalidInput(
                "a bucket has no directory for a lock file; take the provider storage, or name a "
                "directory that all writers see by hoodie.write.lock.filesystem.path",
                table=storage.location,
            )
        return Binding(
            provider,
            directory=settings.directory or f"{storage.location}/{HOODIE}",
            expire_minutes=settings.expire_minutes,
            pause_ms=settings.pause_ms,
        )
    if provider is LockProvider.IN_PROCESS:
        return Binding(provider, process=this_process())
    return Binding(provider)


def lock_provider(storage: Storage) -> str:
    """Return the provider that the table is bound to, as `hoodie.write.lock.provider` names it.
    Raises MalformedTable.
    """
    binding = read_binding(storage)
    return str(binding.provider if binding else LockProvider.STORAGE)


def read_binding(storage: Storage) -> Binding | None:
    """Return the table's binding; None if no writer has named a provider. Raises MalformedTable."""
    tagged_binding = read_tagged_binding(storage)
    return tagged_binding[0] if tagged_binding else None


def read_tagged_binding(storage: Storage) -> tuple[Binding, Tagged] | None:
    """Return the table's binding, and its file's tag to replace it by; None for a table without
    one. Raises MalformedTable.
    """
    try:
        tagged = storage.read_tagged(LOCK_BINDING.path)
    except NotFound:
        return None
    try:
        body = read_json(tagged.content)
        binding = Binding(
            provider=LockProvider(body["provider"]),
            url=str(body["url"]),
            key=str(body["key"]),
            directory=str(body["directory"]),
            expire_minutes=int(body["expire_minutes"]),
            pause_ms=int(body["pause_ms"]),
            process=str(body["process"]),
        )
        return binding, tagged
    except (ValueError, KeyError, TypeError) as error:
        raise MalformedTable(
            "the file that says which lock the table has is damaged; when no writer runs, delete "
            "it",
            path=LOCK_BINDING.path,
        ) from error


def this_process() -> str:
    """Return `<host>/<pid>/<started>`, in which the start time separates processes with the same
    id.
    """
    return f"{socket.gethostname()}/{os.getpid()}/{_get_start_time(os.getpid())}"


def _get_start_time(pid: int) -> str:
    import psutil  # Executors reach this module, and take no lock.

    try:
        return f"{psutil.Process(pid).create_time():.2f}"
    except psutil.NoSuchProcess:
        return "gone"
