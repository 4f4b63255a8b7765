"""The engine as one zip of `workers/`, and its way to executors that may not have it.

Classic sessions get the zip by `addPyFile`, Connect sessions by `addArtifacts`. Two kinds of
executors have the engine already, and get nothing: those of a `local` master, which are processes
of this machine with this very Python, and those of a local Connect server that announces the same
engine (`ENGINE_SETTING`). Any other session gets the zip: a second copy does no harm, and a missing
one fails each task.

A Python of Spark imports from its working folder first, also before the zip. Another package
`workers` there hides the engine, and is rejected.
"""

from __future__ import annotations

import atexit
import hashlib
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zipimport import zipimporter

from workers.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOME_VARIABLE: Final = "SLUICE_HOME"
ENGINE_SETTING: Final = "spark.sluice.engine"
"""A Connect server of ours announces the digest of its engine by this setting."""

_PACKAGE: Final = "workers"
_FOLDER: Final = "engine"
_ENTRY_TIME: Final = (2020, 1, 1, 0, 0, 0)
"""The time of each entry of the zip, so that equal engines are equal bytes."""
_FILE_MODE: Final = 0o644
_DIGEST_CHARS: Final = 16
_SAFE_PATH: Final = "PYTHONSAFEPATH"
"""With it, a Python does not import from its working folder."""
_shipped: set[tuple[str, str]] = set()
"""Session and digest."""


@dataclass(frozen=True, slots=True)
class EngineArchive:
    """The zip of one engine."""

    path: Path
    digest: str
    bytes: int


@cache
def engine_digest() -> str:
    """Return the SHA-256 of the engine that this process has imported: its file names and their
    contents. A folder and a zip of one engine have the same digest.
    """
    return _digest(_engine_files())


def build_archive() -> bytes:
    """Return the zip of this engine. Equal engines have equal zips."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _engine_files():
            entry = zipfile.ZipInfo(name, _ENTRY_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = _FILE_MODE << 16
            archive.writestr(entry, content)
    return body.getvalue()


def ensure_archive(home: Path | None = None) -> EngineArchive:
    """Return the zip of this engine below `home`, else below SLUICE_HOME, else in a folder that
    ends with this process. It is built only where it is missing or damaged.
    """
    named = os.environ.get(HOME_VARIABLE)
    folder = (home or (Path(named) if named else _process_folder())) / _FOLDER
    digest = engine_digest()
    path = folder / f"sluice-engine-{digest[:_DIGEST_CHARS]}.zip"
    if not _is_whole(path):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".new", delete=False) as unfinished:
            unfinished.write(build_archive())
        Path(unfinished.name).replace(path)
    return EngineArchive(path, digest, path.stat().st_size)


def ship_engine(spark: SparkSession) -> EngineArchive | None:
    """Ship the engine to the executors of this session, once for each content. Return the archive,
    or None where the executors have the engine already.

    Raises InvalidInput as `check_working_folder`.
    """
    check_working_folder(spark)
    if not needs_engine(spark):
        return None
    archive = ensure_archive()
    shipment = (session_key(spark), archive.digest)
    if shipment not in _shipped:
        if is_connect(spark):
            spark.addArtifacts(str(archive.path), pyfile=True)
        else:
            spark.sparkContext.addPyFile(str(archive.path))
        _shipped.add(shipment)
    return archive


def check_working_folder(spark: SparkSession) -> None:
    """Check that no other package `workers` hides the engine from the Python that Spark starts in
    this program's working folder: tasks of a `local` master, and the planning of data sources. The
    working folder of a Connect server is not checked here.

    Raises InvalidInput with the folder or file of that package.
    """
    if is_connect(spark):
        return
    context: Any = spark.sparkContext
    if context.environment.get(_SAFE_PATH) or os.environ.get(_SAFE_PATH):
        return
    # Spark starts Python in Java's working folder. This process may have left it.
    folder = str(context._jvm.java.lang.System.getProperty("user.dir"))
    if hiding := find_hiding_package(Path(folder)):
        raise InvalidInput(
            f"{hiding} hides the engine from Spark's Python, which imports package {_PACKAGE} from "
            "its working folder first; rename it, or start this program in another folder"
        )


def find_hiding_package(folder: Path) -> Path | None:
    """Return the folder or file that Python imports as `workers` in this working folder, or None
    if there is none or it is the engine of this process.
    """
    spec = PathFinder.find_spec(_PACKAGE, [str(folder)])
    if spec is None or spec.origin is None:
        return None  # A folder without __init__.py hides no package.
    origin = Path(spec.origin)
    if origin.name != "__init__.py":
        return origin
    package = origin.parent
    is_ours = package.resolve() == Path(__file__).resolve().parents[1]
    return None if is_ours or _digest(_read_package(package)) == engine_digest() else package


def needs_engine(spark: SparkSession) -> bool:
    """Check whether executors of this session may lack the engine, or have another one."""
    is_local = is_local_master(spark.conf.get("spark.master", "") or "")
    if not is_connect(spark):
        return not is_local
    return not (is_local and spark.conf.get(ENGINE_SETTING, "") == engine_digest())


def is_local_master(master: str) -> bool:
    """Check whether tasks run in the JVM of the driver; `local-cluster` starts executors."""
    return master == "local" or master.startswith("local[")


def is_connect(spark: SparkSession) -> bool:
    """Check whether the session is one of a Connect server. Classic tasks lack the libraries of
    Spark's Connect client, so nothing is imported for the answer.
    """
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def session_key(spark: SparkSession) -> str:
    """Return what names the session, or for classic ones the application that shares its files."""
    name: Any = spark.session_id if is_connect(spark) else spark.sparkContext.applicationId
    return str(name)


@cache
def _engine_files() -> tuple[tuple[str, bytes], ...]:
    """Return name and content of each module, sorted by name."""
    loader: Any = __spec__.loader
    if isinstance(loader, zipimporter):
        with zipfile.ZipFile(loader.archive) as archive:
            names = [name for name in archive.namelist() if _is_engine_file(name)]
            return tuple((name, archive.read(name)) for name in sorted(names))
    return _read_package(Path(__file__).parents[1])


def _read_package(package: Path) -> tuple[tuple[str, bytes], ...]:
    paths = {
        f"{_PACKAGE}/{path.relative_to(package).as_posix()}": path for path in _modules(package)
    }
    return tuple((name, paths[name].read_bytes()) for name in sorted(paths))


def _digest(files: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, content in files:
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _modules(package: Path) -> list[Path]:
    return [path for path in package.rglob("*.py") if path.is_file()]


def _is_engine_file(name: str) -> bool:
    return name.startswith(f"{_PACKAGE}/") and name.endswith(".py")


def _is_whole(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            files = [(name, archive.read(name)) for name in archive.namelist()]
    except (OSError, zipfile.BadZipFile):
        return False
    return tuple(files) == _engine_files()


@cache
def _process_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="sluice-engine-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
