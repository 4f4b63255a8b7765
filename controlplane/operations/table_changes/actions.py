"""Renaming, moving, relocating and unregistering a table. Admins do that, with a reason, and it is
in the audit.

A table is relocated and unregistered when nothing of this node is at work on it; its name, slug and
namespace are the control plane's own, and no worker knows them. Whoever registers, renames or
relocates at the same time comes before or after, never between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from django.core.exceptions import PermissionDenied

from controlplane.accounts.access_levels import ADMIN
from controlplane.audit.actions import do_record
from controlplane.errors import InvalidRequest, NotAllowedNow
from controlplane.events import REGISTER, publish_change
from controlplane.mirror.models import SyncMark
from controlplane.mirror.sync import forget_mirror
from controlplane.operations.ask import Requester
from controlplane.operations.confirmation import Confirmation, check_words
from controlplane.operations.requesting import Given
from controlplane.operations.table_changes.hanging import refuse_while_busy, table_change_plan
from controlplane.operations.table_changes.identity import check_same_table
from controlplane.operations.table_changes.sent_twice import (
    digest_of,
    done_before,
    known_request,
    note_request,
)
from controlplane.tables.access import Permission, may, may_everywhere, may_in_namespace
from controlplane.tables.actions import (
    check_no_overlap,
    check_slug_is_free,
    registrations_held,
    take_slug,
)
from controlplane.tables.locations import checked_location
from controlplane.tables.models import FormerSlug, Table
from controlplane.tables.names import (
    check_name,
    check_namespace,
    check_owner,
    check_slug,
    normalize_description,
    tags_in_order,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """What is to become of a table; what is None stays."""

    name: str | None = None
    slug: str | None = None
    namespace: str | None = None
    location: str | None = None
    owner: str | None = None
    """Whom to ask about it; empty for nobody."""
    tags: str | None = None
    """Words with spaces or commas between them."""
    description: str | None = None
    """What it holds; empty for nothing."""

    def body(self) -> dict[str, str]:
        """Only what was said."""
        pairs = {
            "name": self.name,
            "slug": self.slug,
            "namespace": self.namespace,
            "location": self.location,
            "owner": self.owner,
            "tags": self.tags,
            "description": self.description,
        }
        return {key: text for key, text in pairs.items() if text is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unregistered:
    """What became of a table that was taken off the register."""

    slug: str
    location: str
    """Where its files still are."""
    rows_deleted: int
    """Of the control plane's database."""
    audit_rows_kept: int
    file_groups_kept: int


def unregistered_before(
    by: Requester, idempotency_key: str | None, slug: str
) -> Unregistered | None:
    """What the same person was answered when he unregistered the table of this slug with this key;
    None when he did not.
    """
    done = done_before(by, idempotency_key, slug)
    return Unregistered(**done) if done is not None else None


def do_change_table(table: Table, change: TableChange, *, by: Requester, given: Given) -> Table:
    """All of the change or nothing; the table as it is then.

    Raises PermissionDenied; InvalidRequest for words that are not allowed, a slug that is taken, a
    location that overlaps another table's or holds another table, and where nothing would change;
    NotAllowedNow for another location while operations are open or schedules and sinks run, and for
    a table that was unregistered meanwhile; KeyReused; StorageUnavailable.
    """
    _check_role(by, table, change)
    digest = digest_of("change", table, given, change.body())
    if known_request(by, given.idempotency_key, digest) is not None:
        return _current(table)
    check_words(table, given.reason, given.typed_name, Confirmation.REASON)
    wanted = _checked(table, change)
    with registrations_held():
        held = _held(table)
        if known_request(by, given.idempotency_key, digest) is not None:
            return held  # The same request, twice at once.
        if "location" in wanted:
            refuse_while_busy(held)
        slug_before, steps = held.slug, _steps(held, wanted)
        _apply(held, wanted)
        note_request(by, given.idempotency_key, digest, held)
        for what, details in steps:
            do_record(
                who=by.name,
                what=what,
                subject=slug_before,
                result="done",
                reason=given.reason.strip(),
                details=details,
            )
        publish_change(REGISTER, "tables")
        if held.slug != slug_before:
            publish_change(slug_before, "gone")
    return held


def do_unregister_table(table: Table, *, by: Requester, given: Given) -> Unregistered:
    """Take the table off the register with all that the database knows of it. Its files stay, and
    so do audit rows. What went and what stayed.

    Raises PermissionDenied; InvalidRequest for a typed name that is not the table's, and for no
    reason; NotAllowedNow as `do_change_table`; KeyReused.
    """
    _check_role(by, table, TableChange())
    digest = digest_of("unregister", table, given, {})
    if (known := known_request(by, given.idempotency_key, digest)) is not None:
        return Unregistered(**known.done)
    check_words(table, given.reason, given.typed_name, Confirmation.NAME_AND_REASON)
    with registrations_held():
        held = _held(table)
        if (known := known_request(by, given.idempotency_key, digest)) is not None:
            return Unregistered(**known.done)
        refuse_while_busy(held)
        plan = table_change_plan(held)
        done = Unregistered(
            slug=held.slug,
            location=held.location,
            rows_deleted=plan.rows_going,
            audit_rows_kept=plan.audit_rows,
            file_groups_kept=plan.file_groups,
        )
        note_request(by, given.idempotency_key, digest, held, asdict(done))
        do_record(
            who=by.name,
            what="table.unregister",
            subject=held.slug,
            result="done",
            reason=given.reason.strip(),
            details={**asdict(done), "namespace": held.namespace, "name": held.name},
        )
        forget_mirror(held)
        held.delete()
        publish_change(REGISTER, "tables")
        publish_change(plan.slug, "gone")
    return done


def _check_role(by: Requester, table: Table, change: TableChange) -> None:
    """An admin of the table may change what it is called. Slugs and places are everybody's: who
    takes one learns of those that are taken. A namespace gives people their roles.
    """
    if by.user is None:
        return
    if not may(by.user, Permission.ADMINISTER, table):
        raise PermissionDenied(f"this requires the {ADMIN} role")
    changing = {key for key, text in change.body().items() if text != getattr(table, key)}
    namespaces = {table.namespace, change.namespace or ""} if "namespace" in changing else set()
    if not all(may_in_namespace(by.user, Permission.ADMINISTER, name) for name in namespaces):
        raise PermissionDenied(f"this requires the {ADMIN} role in both namespaces")
    if changing & {"slug", "location"} and not may_everywhere(by.user, Permission.ADMINISTER):
        raise PermissionDenied(f"another slug or place requires the {ADMIN} role everywhere")


def _checked(table: Table, change: TableChange) -> dict[str, str]:
    """The columns that change, each with what is allowed there. Storage is read for a location
    alone, and before any lock is held.
    """
    wanted = {key: text for key, text in change.body().items() if text != getattr(table, key)}
    if (name := wanted.get("name")) is not None:
        check_name(name)
    if (slug := wanted.get("slug")) is not None:
        check_slug(slug)
    if (namespace := wanted.get("namespace")) is not None:
        check_namespace(namespace)
    if (owner := wanted.get("owner")) is not None:
        check_owner(owner)
    if (tags := wanted.get("tags")) is not None:
        wanted["tags"] = tags_in_order(tags)
        if wanted["tags"] == table.tags:
            del wanted["tags"]
    if (description := wanted.get("description")) is not None:
        wanted["description"] = normalize_description(description)
        if wanted["description"] == table.description:
            del wanted["description"]
    if (location := wanted.get("location")) is not None:
        wanted["location"] = checked_location(location)
        if wanted["location"] == table.location:
            del wanted["location"]
    if not wanted:
        raise InvalidRequest(
            "nothing would change: the table already has these values", table=table.slug
        )
    if "location" in wanted:
        check_no_overlap(wanted["location"], but=table)
        check_same_table(table, wanted["location"])
    return wanted


def _held(table: Table) -> Table:
    """The row, which no operation is queued for while this transaction lasts. The mark of its sync
    comes first, as in the mirror: whoever applies what it read is waited for.
    """
    SyncMark.objects.select_for_update().filter(table=table).first()
    held = Table.objects.select_for_update().filter(pk=table.pk).first()
    if held is None:
        raise NotAllowedNow("the table was unregistered in the meantime", table=table.slug)
    return held


def _apply(held: Table, wanted: Mapping[str, str]) -> None:
    if (slug := wanted.get("slug")) is not None:
        check_slug_is_free(slug, but=held)
        take_slug(slug)
        FormerSlug.objects.create(slug=held.slug, table=held)
    if (location := wanted.get("location")) is not None:
        check_no_overlap(location, but=held)
        # Whoever reads the former place now loses its turn, and applies nothing of it.
        SyncMark.objects.filter(table=held).update(
            running_until=None, listing_hash="", claims_hash="", sight="", look_at=None
        )
    for column, text in wanted.items():
        setattr(held, column, text)
    held.save(update_fields=list(wanted))


def _steps(held: Table, wanted: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
    """What the audit calls each part of a change, with what was before and is now."""
    named = {
        "table.rename": ("name", "slug"),
        "table.move": ("namespace",),
        "table.relocate": ("location",),
        "table.label": ("owner", "tags", "description"),
    }
    steps = []
    for what, columns in named.items():
        details: dict[str, str] = {}
        for column in columns:
            if column in wanted:
                details |= {f"{column}_before": getattr(held, column), column: wanted[column]}
        if details:
            steps.append((what, details))
    return steps


def _current(table: Table) -> Table:
    current = Table.objects.filter(pk=table.pk).first()
    if current is None:
        raise NotAllowedNow("the table was unregistered in the meantime", table=table.slug)
    return current
