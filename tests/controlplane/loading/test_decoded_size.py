"""A small file that decodes to gigabytes is loaded with an option of admins alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from controlplane.operations.models import Operation
from controlplane.tables.models import Table
from tests.controlplane.loading.entry_points import SLUG, TABLES, FileLoad, Node
from tests.workers.loading.corpus import FOLDER
from workers.errors import InvalidInput
from workers.loading.options import load_options
from workers.loading.reader import open_rows

_TYPES: dict[str, pa.DataType] = {"id": pa.string(), "n": pa.int64()}
SCHEMA = pa.schema(_TYPES)
PATHS = ("operations/", "sources/preview/", "services/delete/plan/")


@pytest.fixture
def file(node: Node) -> Path:
    file = node.drop / "gigabytes.parquet"
    shutil.copyfile(FOLDER / file.name, file)
    node.create(FileLoad(file, table=SCHEMA))
    return file


def test_only_an_admin_lets_a_file_decode_to_more(file: Path, node: Node, operator: User) -> None:
    source = {"kind": "parquet", "path": str(file), "decoded_gb_max": "2"}
    parameters = {"path": str(file), "decoded_gb_max": "2"}
    node.client.force_login(operator)

    answers = [
        node.client.post(
            f"{TABLES}{SLUG}/{path}",
            {"parameters": parameters} if "plan" in path else {"source": source},
            "application/json",
        )
        for path in PATHS
    ]

    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert not Operation.objects.exists()


def test_option_of_an_admin_is_not_kept_for_the_next_file(file: Path, node: Node) -> None:
    source = {"kind": "parquet", "path": str(file), "decoded_gb_max": "2", "names": "clean"}
    node.post(f"{TABLES}{SLUG}/operations/", {"source": source})

    assert Table.objects.get().load_options == {"names": "clean"}
    assert Operation.objects.get().parameters["job"]["source"]["decoded_gb_max"] == "2"


def test_refusal_names_the_option(file: Path, root: Path) -> None:
    with pytest.raises(CommandError, match=r"gives decoded_gb_max, the GiB .*decoded_gb_max=1"):
        call_command("write", str(file), "--no-spark", "--name", "other")

    assert not (root / "other").exists()


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "5000", True])
def test_option_is_a_whole_number(text: object) -> None:
    with pytest.raises(InvalidInput, match="decoded_gb_max must be a whole number from 1 to 4096"):
        load_options({"decoded_gb_max": text})


@pytest.mark.slow
def test_file_is_loaded_with_the_option() -> None:
    options = load_options({"decoded_gb_max": 2})
    rows = open_rows([FOLDER / "gigabytes.parquet"], options)

    assert [batch.num_rows for batch in rows] == [1]
