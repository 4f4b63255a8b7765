"""The packages behind `sluice`: their place, and a check that an import finds them and no others.

`workers`, `controlplane` and `web` are common names. In a wheel they are in `sluice/_packages`,
where they overwrite no other package, and `sluice_packages.pth` puts that folder at the end of the
import path. Another package of the same name is therefore found first. It is refused here.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).resolve().parent
_IN_WHEEL: Final = _HERE / "_packages"
ROOT: Final = _IN_WHEEL if _IN_WHEEL.is_dir() else _HERE.parents[2]


def find_packages(*names: str, goes_first: bool = False) -> None:
    """Put our folder on the import path, at its end unless it `goes_first`, and check each name.

    Raises ImportError if an import of the name finds another package, or none.
    """
    place = str(ROOT)
    if goes_first:
        sys.path.insert(0, place)
    elif place not in sys.path:
        sys.path.append(place)
    for name in names:
        check_package(name)


def check_package(name: str) -> None:
    """Raise ImportError if an import of the name finds another package than ours, or none."""
    file = _find_file(name)
    if file is not None and Path(file).resolve() == ROOT / name / "__init__.py":
        return
    if file is None:
        raise ImportError(
            f"Sluice's own package `{name}` is missing in {ROOT}: install sluice again", name=name
        )
    raise ImportError(
        f"`{name}` is {file} here, not the package `{name}` of Sluice in {ROOT}; rename that "
        "file or folder, or run this program in an environment without it",
        name=name,
        path=file,
    )


def _find_file(name: str) -> str | None:
    loaded = sys.modules.get(name)
    if loaded is not None:
        return getattr(loaded, "__file__", None) or repr(loaded)
    spec = find_spec(name)
    return spec.origin if spec is not None else None
