"""Writers: who writes now, what speaks for their life, what they claim, and the way to end one."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from controlplane.errors import ControlPlaneError
from controlplane.operations.actions import do_request_abort
from controlplane.operations.queries import OperationRow, operations_page
from controlplane.operations.states import OPEN
from controlplane.operations.stream_rounds import StreamRounds, stream_rounds
from controlplane.tables.access import Permission, access_table, may
from controlplane.writers.activity import WriterActivity, is_living, writers_activity
from web.board import BoardLine, line
from web.conflicts.words import PartitionGroups, by_partition
from web.heat_table import heat_table
from web.list_parts import ALL
from web.refusals import page, person, refusal_of

if TYPE_CHECKING:
    from controlplane.tables.models import Table

OPERATIONS_READ = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterCard:
    activity: WriterActivity
    line: BoardLine
    claims: tuple[PartitionGroups, ...]
    operation: OperationRow | None
    """Ours that it runs for, while that is open."""
    rounds: StreamRounds | None
    """Of one that has committed and whose stream goes on."""
    lock_s: float | None
    is_ending: bool
    """Somebody has asked for its end."""


@require_safe
@page
def writers(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    context = {"page": "writers", "table": table, **_cards(request, table)}
    return render(request, "pages/writers.html", context)


@require_safe
@page
def writers_part(request: HttpRequest, slug: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.VIEW)
    return render(
        request, "fragments/writer_cards.html", {"table": table, **_cards(request, table)}
    )


@require_safe
@page
def abort(request: HttpRequest, slug: str, instant: str) -> HttpResponse:
    """What ending this writer means, and the question why."""
    table = access_table(person(request), slug, Permission.OPERATE)
    cards = _cards(request, table)["cards"]
    card = next((one for one in cards if one.line.row.instant == instant), None)
    context = {
        "page": "writers",
        "table": table,
        "card": card,
        "instant": instant,
        "key": uuid.uuid4(),
    }
    return render(request, "pages/abort.html", context)


@require_POST
@page
def abort_now(request: HttpRequest, slug: str, instant: str) -> HttpResponse:
    table = access_table(person(request), slug, Permission.OPERATE)
    try:
        operation = do_request_abort(
            table,
            instant,
            reason=request.POST.get("reason", "")[:500],
            by=person(request),
            idempotency_key=request.POST.get("idempotency_key", "")[:100] or None,
        )
    except ControlPlaneError as error:
        messages.error(request, refusal_of(error).text)
        return redirect("writer-abort", slug, instant)
    return redirect("operation", table.slug, operation.pk)


def _cards(request: HttpRequest, table: Table) -> dict[str, Any]:
    now = timezone.now()
    activities = writers_activity(table, now)
    opened = operations_page(
        table, person(request), states=sorted(OPEN), limit=OPERATIONS_READ
    ).rows
    going_on = {one.stream: one for one in stream_rounds(table, now) if one.phase != "ended"}
    cards = [_card(table, one, opened, going_on, now) for one in activities]
    living = [one for one in cards if is_living(one.line.row)]
    return {
        **_claimed(living, is_whole=request.GET.get(ALL) == "claims"),
        "cards": cards,
        "may_operate": may(person(request), Permission.OPERATE, table),
        "sums": {
            "living": len(living),
            "late": sum(one.line.row.state in ("suspect", "expired") for one in living),
            "claims": sum(one.activity.claim_count for one in living),
            "meeting": sum(bool(one.activity.met) for one in living),
            "waiting": sum(one.activity.lock == "waits" for one in living),
            "blocked": sum(one.activity.verdict is not None for one in living),
        },
    }


def _claimed(living: list[WriterCard], *, is_whole: bool) -> dict[str, Any]:
    """File groups by writer and partition, as far as the mirror keeps them."""
    holders = Counter(claim for one in living for claim in set(one.activity.claims))
    counts: Counter[tuple[str, str]] = Counter()
    shared = set()
    for card in living:
        instant = card.activity.row.instant
        for partition, file_id in set(card.activity.claims):
            counts[instant, partition] += 1
            if holders[partition, file_id] > 1:
                shared.add((instant, partition))
    claimed = heat_table(counts, marked=shared, is_whole=is_whole)
    names = {one.activity.row.instant: one.activity.row.writer for one in living}
    lines = [(line, names[line.key]) for line in claimed.lines] if claimed else []
    return {"claimed": claimed, "claimed_lines": lines}


def _card(
    table: Table,
    activity: WriterActivity,
    opened: list[OperationRow],
    going_on: Mapping[str, StreamRounds],
    now: datetime,
) -> WriterCard:
    row = activity.row
    since = activity.lock_since_ms
    return WriterCard(
        activity=activity,
        line=line(table, row),
        claims=by_partition(activity.claims, most=8),
        operation=next((one for one in opened if str(one.id) == row.operation_id), None),
        rounds=going_on.get(row.stream) if row.ending == "committed" else None,
        lock_s=now.timestamp() - since / 1000 if since is not None else None,
        is_ending=any(one.kind == "rollback" and one.instant == row.instant for one in opened),
    )
