"""Where a node keeps what it writes at run time. Pure: nothing here touches the disk except
`create`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workers.installation import IS_CHECKOUT, ROOT

PROJECT = ROOT


@dataclass(frozen=True, slots=True)
class Places:
    """Everything below one folder: see `find_home`."""

    home: Path

    @property
    def tables(self) -> Path:
        return self.home / "tables"

    @property
    def uploads(self) -> Path:
        return self.home / "uploads"

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def counts(self) -> Path:
        """Where processes keep what `/metrics` adds up."""
        return self.run / "counts"

    @property
    def beat_tick(self) -> Path:
        """The file whose time is that of beat's last tick."""
        return self.run / "beat-tick"

    @property
    def log(self) -> Path:
        return self.home / "log"

    @property
    def redis(self) -> Path:
        return self.home / "redis"

    @property
    def spark(self) -> Path:
        return self.home / "spark"

    @property
    def static(self) -> Path:
        return self.home / "static"

    @property
    def secrets(self) -> Path:
        return self.home / "secrets.json"

    @property
    def identity(self) -> Path:
        return self.run / "node.json"

    @property
    def supervisor_settings(self) -> Path:
        return self.home / "supervisord.conf"

    @property
    def supervisor_pid(self) -> Path:
        return self.run / "supervisord.pid"

    @property
    def supervisor_log(self) -> Path:
        return self.log / "supervisord.log"

    def create(self) -> None:
        """Make every folder; only this user may look into the home."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.home.chmod(0o700)
        for folder in (self.tables, self.run, self.counts, self.log, self.redis, self.spark):
            folder.mkdir(exist_ok=True)


def places_from(environ: Mapping[str, str]) -> Places:
    return Places(home=find_home(environ))


def find_home(environ: Mapping[str, str], *, is_checkout: bool = IS_CHECKOUT) -> Path:
    """Return the folder that SLUICE_HOME names, else `var` of the checkout. An installed wheel has
    `sluice` in XDG_STATE_HOME, or in `~/.local/state`, instead.
    """
    if named := environ.get("SLUICE_HOME"):
        return Path(named).resolve()
    if is_checkout:
        return (PROJECT / "var").resolve()
    state = Path(environ.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():  # The specification ignores relative ones.
        state = Path(environ.get("HOME") or Path.home()) / ".local" / "state"
    return (state / "sluice").resolve()
