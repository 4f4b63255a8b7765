"""`manage.py table mask`: show or set the masked columns of a table."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from typing import Any

from controlplane.mirror.masking import do_mask_columns, masked_columns
from controlplane.node.shell.arguments import add_fields
from controlplane.node.shell.identity import check_role, granter
from controlplane.operations.descriptions.tables import MASK_COLUMNS
from controlplane.tables.access import Permission
from controlplane.tables.models import Table

_TEXT = "set the masked columns of a table; without columns, list the masked columns"


def add_masking(add_parser: Callable[..., ArgumentParser]) -> None:
    """Put the action among those of `manage.py table`."""
    mask = add_parser("mask", help=_TEXT, description=_TEXT)
    mask.add_argument("slug", help="the slug of the table")
    add_fields(mask, MASK_COLUMNS.fields)
    mask.add_argument("--none", action="store_true", help="unmask all columns")


def mask_columns(table: Table, options: Mapping[str, Any], say: Callable[[str], object]) -> None:
    """Set them where some are named, or none is wanted; then say which there are, one a line.

    Raises InvalidRequest.
    """
    if options["columns"] or options["none"]:
        check_role(table, Permission.ADMINISTER)
        by = granter()
        wanted = [] if options["none"] else options["columns"]
        masked = do_mask_columns(table, wanted, by=by, reason=options["reason"])
    else:
        check_role(table, Permission.VIEW)
        masked = masked_columns(table)
    for path in masked.columns:
        say(f"{path}\tno longer a column" if path in masked.unknown else path)
