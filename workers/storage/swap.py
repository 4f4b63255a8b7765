"""Replacing a file only where it is still what it was, without a lock: no process waits for
another.

Beside `x` stands the directory `.sluice-swap-x`. A process that wants version n+1 writes a proposal
there, `<n+1>-<token>`, and links it to the name `<n+1>`: the link is made by one only, and decides.
Then the proposal is renamed to `x`, by its writer or by whoever comes next. A name is renamed once
and gone, so a process that sleeps before its rename and wakes much later changes nothing: another
has done it instead, and must have before version n+2 could be decided. Numbers behind the newest
are removed, the newest never is.

A process that sleeps before its link may find its number removed and take it anew. That link is
void: there is a newer number, and nobody renamed this proposal, which is done for the newest alone.
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
from workers.storage.links import refuse_link
from workers.storage.settled_names import sync_directory

PREFIX: Final = ".sluice-swap-"
LEGACY_PREFIX: Final = ".sluice-cas-"
"""Files that former versions of Sluice locked while they compared and renamed."""
PROPOSALS_KEPT_S: Final = 24 * 3600
"""A proposal of a process that died may be removed when it is older than this."""
_TRIES_MAX: Final = 100


class Swap:
    """The versions of one file. Needs a file system with hard links that lists a directory of a few
    names as it was at one moment, as it does when one call reads all of it.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._directory = target.with_name(f"{PREFIX}{target.name}")

    def is_begun(self) -> bool:
        """Whether the file was ever replaced this way: then all who replace it must go this way."""
        refuse_link(self._directory)
        return self._directory.is_dir()

    def settle(self) -> int:
        """Publish what a writer decided that sleeps or died; gives the newest version's number."""
        refuse_link(self._directory)
        names = self._names()
        newest = _newest(names)
        for name in names:
            if name.startswith(f"{newest}-") and self._is_decided(name, newest):
                self._publish(self._directory / name)
        return newest

    def replace(self, is_expected: Callable[[], bool], write: Callable[[Path], None]) -> bool:
        """False when the file is not as expected, or somebody else replaced it meanwhile.

        Raises WriteOutcomeUnknown when this process slept for so long that its traces are gone.
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
        is_ours = self._followed(number, proposal)
        if time.monotonic() - began_s > PROPOSALS_KEPT_S / 2:
            raise WriteOutcomeUnknown("slept in the middle of replacing a file", path=self._target)
        return is_ours

    def put(self, write: Callable[[Path], None]) -> None:
        """Replace whatever is there; a process that sleeps in `replace` does not undo it."""
        for _ in range(_TRIES_MAX):
            if self.replace(lambda: True, write):
                return
        raise StorageFailed(
            "others replace the file all the time", path=self._target, tries=_TRIES_MAX
        )

    def discard(self) -> None:
        """The file is gone, and with it what is known of its versions."""
        refuse_link(self._directory)
        with suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(self._directory):
                (self._directory / name).unlink(missing_ok=True)
            with suppress(OSError):  # Somebody begins anew: it is not empty.
                self._directory.rmdir()

    def sync(self) -> None:
        """Keep it through a power loss. Else a proposal that was published and overtaken could come
        back without the number of the newer one, and whoever settles would publish it again.
        """
        with suppress(FileNotFoundError):  # The file was deleted since, and its versions with it.
            sync_directory(self._directory)

    def _begin(self) -> None:
        if not self.is_begun():
            with suppress(FileExistsError):
                self._directory.mkdir()
            self._target.with_name(f"{LEGACY_PREFIX}{self._target.name}").unlink(missing_ok=True)

    def _followed(self, number: int, proposal: Path) -> bool:
        """Whether the link to `number` counted; it does not when newer ones were there before."""
        names = self._names()
        if _newest(names) > number:
            try:
                proposal.unlink()
            except FileNotFoundError:
                return True  # Published for us: others only go on from what is published.
            (self._directory / str(number)).unlink(missing_ok=True)
            return False
        self._publish(proposal)
        for name in names:
            if name.isdecimal() and int(name) < number:
                (self._directory / name).unlink(missing_ok=True)
        return True

    def _publish(self, proposal: Path) -> None:
        with suppress(FileNotFoundError):  # Somebody else did.
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
