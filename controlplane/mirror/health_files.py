"""Health checks of files: sizes of file groups, and metadata of the partitions that hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db.models import Avg, Count, Max, OuterRef, Q, Subquery, Sum
from django.db.models.functions import JSONObject

from controlplane.mirror.health_check import Check
from controlplane.mirror.health_words import many
from controlplane.mirror.models import FileGroupRecord, LeftOutFiles
from controlplane.mirror.thresholds import Limits

_MB: Final = 1_000_000
GROUPS_JUDGED_LEAST: Final = 10
"""The mean of fewer does not show skew."""


def file_columns(limits: Limits) -> Mapping[str, Subquery]:
    """Return columns to annotate on a query with a `table`, which save a query."""
    live = FileGroupRecord.objects.filter(table=OuterRef("table"), is_replaced=False)
    is_small = Q(bytes__lt=int(limits["small-file"] * _MB))
    stats = JSONObject(
        groups=Count("pk"), small=Count("pk", filter=is_small), mean=Avg("bytes"), most=Max("bytes")
    )
    others = LeftOutFiles.objects.filter(table=OuterRef("table"), is_replaced=False)
    sums = JSONObject(groups=Sum("file_groups"), bytes=Sum("bytes"), most=Max("largest_bytes"))
    return {
        "file_stats": Subquery(live.order_by().values("table").values(stats=stats)),
        "left_out_stats": Subquery(others.order_by().values("table").values(stats=sums)),
    }


def file_checks(columns: Mapping[str, Any], limits: Limits) -> list[Check]:
    """Return the checks; none for a table without files."""
    stats = columns["file_stats"]
    if not stats or not stats["groups"]:
        return []
    others = columns["left_out_stats"] or {"groups": 0, "bytes": 0, "most": 0}
    small = _small(stats, others, limits)
    return [small, *_skew(stats, others, limits), _metadata(columns["unmarked"])]


def _metadata(unmarked: Sequence[str]) -> Check:
    title = "Every partition has its metadata"
    if not unmarked:
        sentence = "other engines can find every partition"
        return Check(name="partition-metadata", title=title, verdict="good", sentence=sentence)
    return Check(
        name="partition-metadata",
        title=title,
        verdict="bad",
        sentence=f"{many(len(unmarked), 'partition')} without .hoodie_partition_metadata, such as "
        f"{unmarked[0] or 'the table itself'}",
        advice="Other engines read no rows there. Run repair to restore the file. If the table was "
        "copied, check that the copy includes the other files that start with a dot.",
        remedy="repair",
    )


def _small(stats: Mapping[str, float], others: Mapping[str, float], limits: Limits) -> Check:
    """Judge the file groups that have a row; the sizes of the others are not known."""
    small, groups = int(stats["small"]), int(stats["groups"])
    judged = many(groups, "file group")
    if others["groups"]:
        judged = f"the {judged} with the newest writes, of {groups + int(others['groups']):,},"
    is_much = small > limits["small-files"] and 2 * small > groups
    return Check(
        name="small-files",
        title="Files are large enough",
        verdict="warn" if is_much else "good",
        sentence=f"{small:,} of {judged} have less than {limits['small-file']:g} MB",
        advice="Each small file costs every reader a request. Cluster, or write to fewer buckets."
        if is_much
        else "",
        remedy="clustering" if is_much else "",
    )


def _skew(stats: Mapping[str, float], others: Mapping[str, float], limits: Limits) -> list[Check]:
    groups = stats["groups"] + others["groups"]
    total = stats["mean"] * stats["groups"] + others["bytes"]
    if groups < GROUPS_JUDGED_LEAST or not total:
        return []
    most = max(stats["most"], others["most"])
    times = most * groups / total
    is_skewed = times > limits["skew"] and most >= limits["small-file"] * _MB
    return [
        Check(
            name="skew",
            title="No skewed file groups",
            verdict="warn" if is_skewed else "good",
            sentence=f"the largest file group is {times:.1f} times the mean",
            advice="One task writes and compacts it while others wait. Check its keys, or cluster."
            if is_skewed
            else "",
        )
    ]
