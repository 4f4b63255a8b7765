"""Shares of staged inserts for each file group, once updates and inserts are separate."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from workers.storage.base import Storage
from workers.write.context import WriteContext
from workers.write.placement import Shares, assign_slots, with_padded_groups
from workers.write.staging import StagedFile, StagedGroup, by_file_group, cut

UNPLACED: Final = np.iinfo(np.int32).max
"""The slot of inserts until they are dealt out."""


def assign_staged_inserts(
    context: WriteContext, files: Sequence[StagedFile], storage: Storage
) -> tuple[WriteContext, list[StagedGroup]]:
    """Return all tagged rows by file group, and the context that names what takes inserts and
    deleted keys that come back.
    """
    context, groups = _assign_inserts(context, by_file_group(files), storage)
    revived, left = (
        _sum_keys(file.revived for file in files),
        _sum_keys(file.left for file in files),
    )
    return replace(context, revived=revived, left=left), groups


def _sum_keys(counts: Iterable[Iterable[tuple[str, int, int]]]) -> dict[tuple[str, int], int]:
    """Tasks have shares of the keys, so that none counts a key of another."""
    keys_by_place: Counter[tuple[str, int]] = Counter()
    for partition, slot, keys in itertools.chain.from_iterable(counts):
        keys_by_place[partition, slot] += keys
    return dict(keys_by_place)


def _assign_inserts(
    context: WriteContext, groups: Sequence[StagedGroup], storage: Storage
) -> tuple[WriteContext, list[StagedGroup]]:
    inserts = {group.partition: group for group in groups if group.slot == UNPLACED}
    counts = {partition: group.rows for partition, group in inserts.items()}
    shares: Shares = assign_slots(context, counts, storage)
    whole = {(group.partition, group.slot): group for group in groups if group.slot != UNPLACED}
    for partition, dealt_shares in shares.items():
        parts = cut(inserts[partition], [share.rows for share in dealt_shares])
        for share, part in zip(dealt_shares, parts, strict=True):
            at = (partition, share.slot)
            group = replace(part, slot=share.slot)
            if (updates := whole.get(at)) is not None:
                pieces, size = (*updates.pieces, *part.pieces), updates.bytes + part.bytes
                group = replace(group, pieces=pieces, bytes=size)
            whole[at] = group
    return with_padded_groups(context, shares), list(whole.values())
