"""How long properties are tried: no deadline, because a loaded machine is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("sluice", deadline=None, database=None, print_blob=True)
settings.load_profile("sluice")
