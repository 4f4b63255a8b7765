"""Replacement of a file only if it is unchanged, without a lock: no process waits for another.

Next to `x` is the directory `.sluice-swap-x`. A process that writes version n+1 first writes a
proposal there, `<n+1>-<token>`, and links it to the name `<n+1>`: only one process succeeds, and
its link decides. Then the proposal is renamed to `x`, by its writer or by the next process. A name
is renamed only once, so a process that stalls before its rename changes nothing when it resumes:
another has done it instead, and must have before version n+2 could be decided. Numbers older than
the newest are removed, the newest never is.

A process that stalls before its link may find its number removed and link it again. That link is
void: there is a newer number, and no process renamed this proposal, because only the newest is
renamed.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from workers.errors import StorageFailed, WriteOutcomeUnknown
from workers.storage.links import reject_link
from workers.storage.synced_directories import sync_directory

PREFIX: Final = ".sluice-swap-"
LEGACY_PREFIX: Final = ".sluice-cas-"
"""Files that former versions of Sluice locked while they compared and renamed."""
PROPOSALS_KEPT_S: Final = 24 * 3600
"""A proposal of a process that died may be removed when it is older than this."""
_TRIES_MAX: Final = 100


class Swap:
    """The versions of one file. Needs a file system with hard links that lists a directory of a few
    names as it was at one moment, as one call that reads all of it does.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._directory = target.with_name(f"{PREFIX}{target.name}")

    def is_begun(self) -> bool:
        """Return True if the file was ever replaced this way: then every replacement must use
        it.
        """
        reject_link(self._directory)
        return self._directory.is_dir()

    def settle(self) -> int:
        """Publish the decision of a writer that stalled or died, and return the newest version's
        number.
        """
        reject_link(self._directory)
        names = self._names()
        newest = _newest(names)
        for name in names:
            if name.startswith(f"{newest}-") and self._is_decided(name, newest):
                self._publish(self._directory / name)
        return newest

    def replace(self, is_expected: Callable[[], bool], write: Callable[[Path], None]) -> bool:
        """Replace the file, or return False if it is not as expected or another process replaced it
        first.

        Raises WriteOutcomeUnknown when this process stalled for so long that its traces are
        removed.
        """
        began_s = time.monotonic()
        self._begin()
        number = self.settle() + 1
        if not is_expected():
            return False
        proposal = self._directory / f"{number}-{uuid.uuid4().hex}"
        write(proposal)
        try:
            os.link(proposal, self._directory / str(number))
        except FileExistsError:
            proposal.unlink(missing_ok=True)
            return False
        is_ours = self._follow_link(number, proposal)
        if time.monotonic() - began_s > PROPOSALS_KEPT_S / 2:
            raise WriteOutcomeUnknown("process stalled while it replaced a file", path=self._target)
        return is_ours

    def put(self, write: Callable[[Path], None]) -> None:
        """Replace the current file; a process that stalls in `replace` does not undo it."""
        for _ in range(_TRIES_MAX):
            if self.replace(lambda: True, write):
                return
        raise StorageFailed(
            "others replace the file all the time", path=self._target, tries=_TRIES_MAX
        )

    def discard(self) -> None:
        """Delete the versions of a file that was deleted."""
        reject_link(self._directory)
        with suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(self._directory):
                (self._directory / name).unlink(missing_ok=True)
            with suppress(OSError):  # It is not empty, because another process began again.
                self._directory.rmdir()

    def sync(self) -> None:
        """Sync the directory. Otherwise a power loss could restore a published proposal without the
        number of a newer one, and the next process would publish it again.
        """
        with suppress(FileNotFoundError):  # The file was deleted since, and its versions with it.
            sync_directory(self._directory)

    def _begin(self) -> None:
        if not self.is_begun():
            with suppress(FileExistsError):
                self._directory.mkdir()
            self._target.with_name(f"{LEGACY_PREFIX}{self._target.name}").unlink(missing_ok=True)

    def _follow_link(self, number: int, proposal: Path) -> bool:
        """Return True if the link to `number` counts; it does not if newer numbers existed
        before.
        """
        names = self._names()
        if _newest(names) > number:
            try:
                proposal.unlink()
            except FileNotFoundError:
                return True  # Published for us: others only continue from what is published.
            (self._directory / str(number)).unlink(missing_ok=True)
            return False
        self._publish(proposal)
        for name in names:
            if name.isdecimal() and int(name) < number:
                (self._directory / name).unlink(missing_ok=True)
        return True

    def _publish(self, proposal: Path) -> None:
        with suppress(FileNotFoundError):  # Another process did.
            os.replace(proposal, self._target)

    def _is_decided(self, name: str, number: int) -> bool:
        try:
            return (self._directory / name).samefile(self._directory / str(number))
        except FileNotFoundError:  # It is published, or newer ones have come.
            return False

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._directory)
        except FileNotFoundError:
            return []


def _newest(names: list[str]) -> int:
    return max((int(name) for name in names if name.isdecimal()), default=0)
