"""Run a module as `python -m` does, but without pandas: `python -m workers.bounded_start <module>`.

Arrow imports pandas, for half a second, to learn that a list is not one of its arrays. It works
without pandas where no module has it.
"""

from __future__ import annotations

import runpy
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any


class NoPandas(MetaPathFinder):
    """A finder before all others that has no pandas."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Raise ModuleNotFoundError for pandas; leave other modules to other finders."""
        if name == "pandas":
            raise ModuleNotFoundError("this process runs without pandas", name=name)
        return None


if __name__ == "__main__":
    sys.meta_path.insert(0, NoPandas())
    runpy.run_module(sys.argv[1], run_name="__main__", alter_sys=True)
