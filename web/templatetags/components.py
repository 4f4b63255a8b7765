"""Tags that render one small template each, out of templates/components: what pages are built of.

Everything here is given untrusted text and returns template context, or what a template rendered;
nothing is marked safe.
Templates have these without loading them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from django import template
from django.forms import BoundField
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString

from controlplane.program import format_command
from controlplane.tables.freshness import Freshness
from controlplane.tables.freshness import freshness as freshness_now
from web.badges import badge
from web.list_parts import ListPart
from web.shell import PLACES
from web.templatetags.lake import age, query, time_of, took
from web.time_zones import shown_zone, zone_words

if TYPE_CHECKING:
    from controlplane.mirror.queries.phases import PhaseRow
    from controlplane.rows.answers import ChangedRow, StoredRow
    from controlplane.tables.models import Table

register = template.Library()
register.simple_tag(format_command, name="command")

_KEPT = "Stored in the audit log with your name."
_KEPT_WITH_PLAN = "Stored in the audit log with your name and the plan's hash."
_RENDERED_KEPT = 4_096
_TWINS = {"table": "The table below"}
_EXPLAINED = {
    "event_lag": (
        "From the newest event to now, by event time: the age of the newest event in the table. "
        "It grows when events are late and when nothing is committed."
    ),
    "processing_lag": (
        "From the newest commit to now, by this node's clock. If it is small and the event lag is "
        "large, old events are arriving. If both are large, no events are arriving."
    ),
    "no_event_time": (
        "The ordering column is not a time. Timestamps are times; numbers are if "
        "sluice.event.time.unit is set."
    ),
}
BEAT_STRIP = 300.0
"""Width of a heartbeat strip in its own units: three times the tolerance."""


@lru_cache(_RENDERED_KEPT, typed=True)
def _rendered(component: str, names: tuple[str, ...], *words: object) -> SafeString:
    """What a component makes of these words alone: a list shows the same ones in each row, and in
    each answer.
    """
    return render_to_string(f"components/{component}.html", dict(zip(names, words, strict=True)))


@register.simple_tag
def status(machine: str, state: object, word: str = "") -> SafeString:
    """A state of one of the machines of `web.badges`, in its own word or a given one."""
    known = badge(machine, str(state))
    names = ("word", "icon", "tone", "state")
    return _rendered("status", names, word or known.word, known.icon, known.tone, str(state))


@register.inclusion_tag("components/tag.html")
def tag(machine: str, state: object) -> dict[str, str]:
    """A state as a small tag."""
    return badge(machine, str(state))._asdict()


@register.simple_tag
def freshness(table: Table) -> Freshness:
    """How old is what is shown of a table. Asks the database only where it cannot be read."""
    return freshness_now(table)


@register.filter
def tone(state: object, machine: str) -> str:
    """The colour of a state, for a class."""
    return badge(machine, str(state)).tone


@register.filter
def sign(state: object, machine: str) -> str:
    """The icon of a state."""
    return badge(machine, str(state)).icon


@register.simple_tag
def moment(value: object, style: str = "time") -> SafeString:
    """A `<time>` in the reader's time zone, with UTC beside it. Styles: `time` (clock), `full`
    (date and clock), `ago` (ticks in the browser).
    """
    at = time_of(value)
    if at is None:
        return _rendered("moment", ("at",), None)
    ago = age((datetime.now(UTC) - at).total_seconds()) if style == "ago" else ""
    return _moment(at, style, ago, shown_zone())


@lru_cache(_RENDERED_KEPT)
def _moment(at: datetime, style: str, ago: str, in_zone: ZoneInfo) -> SafeString:
    shown, zone = at.astimezone(in_zone), zone_words(at)
    iso = at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    title = iso if zone == "UTC" else f"{shown:%-d %b %Y, %H:%M:%S} {zone} · {iso}"
    words = {
        "at": at,
        "iso": iso,
        "title": title,
        "zone": zone,
        "ms": int(at.timestamp() * 1000),
        "clock": shown.strftime("%H:%M:%S"),
        "millis": f"{at.microsecond // 1000:03d}",
        "date": shown.strftime("%-d %b %Y"),
        "style": style,
        "ago": ago,
    }
    # A comma or a full stop may follow, without a space before it.
    return SafeString(render_to_string("components/moment.html", words).strip())


@register.simple_tag(takes_context=True)
def row_history_url(context: template.Context, row: StoredRow | ChangedRow) -> str:
    """Where every version of a row of this page's table is."""
    query = urlencode({"key": row.key, "partition": row.partition})
    return f"{reverse('data-row', args=[context['table'].slug])}?{query}"


@register.simple_tag
def as_query(name: str, content: str) -> str:
    """Return one parameter of an address."""
    return urlencode({name: content})


@register.simple_tag
def moment_text(instant: str) -> str:
    """An instant as plain text, for places that take no element: `31 Jan 2026, 12:00:00`, UTC."""
    at = time_of(instant)
    return at.strftime("%-d %b %Y, %H:%M:%S") if at else instant


@register.inclusion_tag("components/gauge.html")
def gauge(share: float | None, tone: str = "good", label: str = "") -> dict[str, Any]:
    """A thin horizontal bar, drawn as SVG because the policy refuses inline styles."""
    bounded = max(0.0, min(1.0, float(share or 0.0)))
    return {"width": round(bounded * 100, 2), "tone": tone, "label": label}


@register.inclusion_tag("components/split_bar.html")
def split_bar(base: float | None, log: float | None) -> dict[str, Any]:
    """Two parts of one whole: base file and logs."""
    total = (base or 0) + (log or 0)
    share = 100 * (log or 0) / total if total else 0.0
    return {
        "base": round(100 - share, 1) if total else 0,
        "log": round(share, 1),
        "label": f"{share:.0f}% logs",
    }


@register.inclusion_tag("components/phases.html")
def phase_bar(phases: Sequence[PhaseRow]) -> dict[str, Any]:
    """How long an instant was in each phase, as parts of one bar and as a list."""
    lasted = [(phase.name, phase.duration_ms) for phase in phases if phase.duration_ms]
    total_ms = sum(duration_ms for _, duration_ms in lasted)
    bars, x = [], 0.0
    for name, duration_ms in lasted:
        width = 100 * duration_ms / total_ms
        bars.append({"name": name, "x": round(x, 2), "width": round(width, 2)})
        x += width
    return {
        "phases": phases,
        "bars": bars,
        "label": ", ".join(f"{name} {took(duration_ms)}" for name, duration_ms in lasted),
        "has_clock": any(phase.state == "clock" for phase in phases),
    }


@register.inclusion_tag("components/beat.html")
def beat_strip(used: float) -> dict[str, Any]:
    """Time runs to the right edge, which is now; the line is where a heartbeat is too old."""
    width = max(0.0, min(BEAT_STRIP, used * BEAT_STRIP / 3))
    return {
        "strip": BEAT_STRIP,
        "limit": BEAT_STRIP * 2 / 3,
        "at": round(BEAT_STRIP - width, 1),
        "width": round(width, 1),
        "tone": "bad" if used > 1 else "warn" if used > 0.5 else "good",
    }


@register.simple_tag
def icon(name: str) -> SafeString:
    return _rendered("icon", ("name",), name)


@register.simple_block_tag
def notice(
    content: SafeString, tone: str, icon: str, *, role: str = "", flat: bool = False
) -> SafeString:
    """A coloured line that says what a reader must know first; its text is the block's."""
    words = {"content": content, "tone": tone, "sign": icon, "role": role, "flat": flat}
    return render_to_string("components/notice.html", words)


@register.simple_block_tag
def twin(
    content: SafeString, label: str, *, summary: str = "View as table", tall: bool = False
) -> SafeString:
    """A chart's numbers for those who do not see it: a fold around the block's table, which scrolls
    in itself, from a height on if it is `tall`.
    """
    words = {"content": content, "label": label, "summary": summary, "tall": tall}
    return render_to_string("components/twin.html", words)


@register.simple_block_tag
def nothing(content: SafeString, title: str, *, in_panel: bool = False) -> SafeString:
    """What stands where there is nothing to show; the block says why, and what to do about it."""
    words = {"content": content, "title": title, "in_panel": in_panel}
    return render_to_string("components/nothing.html", words)


@register.inclusion_tag("components/instant_link.html", takes_context=True)
def instant_link(context: template.Context, instant: str) -> dict[str, Any]:
    """An instant that leads to its place on the timeline of this page's table."""
    return {"instant": instant, "table": context["table"]}


@register.inclusion_tag("components/file_group_link.html", takes_context=True)
def file_group_link(
    context: template.Context, partition: str, file_id: str, length: int = 24
) -> dict[str, Any]:
    """A file group that leads to its page, its id cut in the middle."""
    return {
        "table": context["table"], "partition": partition, "file_id": file_id, "length": length
    }  # fmt: skip


@register.simple_tag
def explained(name: str) -> str:
    """What a figure means, for the title of its column."""
    return _EXPLAINED[name]


@register.inclusion_tag("components/fact.html")
def fact(name: str, words: object) -> dict[str, Any]:
    """A line of a list of facts, whose value is plain text."""
    return {"name": name, "words": words}


@register.inclusion_tag("components/copy.html")
def copy(value: object, name: str) -> dict[str, Any]:
    """Return a button that copies the value in full; `name` is its label."""
    return {"value": value, "name": name}


@register.inclusion_tag("components/figure.html")
def figure(name: str, words: object, note: object = "") -> dict[str, Any]:
    """Return one number of the row at a page's head, with a smaller note."""
    return {"name": name, "words": words, "note": note}


@register.inclusion_tag("components/table_head.html")
def table_head(*names: str) -> dict[str, Any]:
    """The head of a table; a name may say the class of its column: `Rows:num`."""
    return {"columns": [name.partition(":")[::2] for name in names]}


@register.inclusion_tag("components/sort_head.html", takes_context=True)
def sort_head(
    context: template.Context, key: str, title: str, is_number: bool = False, about: str = ""
) -> dict[str, Any]:
    """The head of a column by which a list may be sorted: `sort` of its address says how it is.
    Numbers are sorted with the greatest first.
    """
    sort = context["request"].GET.get("sort", "")
    orders = {key: "ascending", f"-{key}": "descending"}
    first, second = (f"-{key}", key) if is_number else (key, f"-{key}")
    wanted = second if sort == first else "" if sort == second else first
    return {
        "title": title,
        "about": about,
        "is_number": is_number,
        "order": orders.get(sort, ""),
        "url": query(context, sort=wanted, page=""),
    }


@register.inclusion_tag("components/export_links.html", takes_context=True)
def export_links(context: template.Context, page: str) -> dict[str, str]:
    """The list at hand as a file, with the filters that stand in its address."""
    address = reverse(page)
    return {
        "csv": f"{address}{query(context, **{'as': 'csv'})}",
        "json": f"{address}{query(context, **{'as': 'json'})}",
    }


@register.inclusion_tag("components/list_end.html")
def list_end(part: ListPart[Any], label: str = "") -> dict[str, Any]:
    """Render which rows of a list are shown, and the links to the others; nothing if all are."""
    return {"part": part, "label": label}


@register.inclusion_tag("components/panel_head.html")
def panel_head(
    anchor: str, title: str, note: str = "", count: object = "", side: str = ""
) -> dict[str, Any]:
    """The head of a panel: its title, how many there are, and a note; `push` puts it right."""
    return {"anchor": anchor, "title": title, "note": note, "count": count, "side": side}


@register.inclusion_tag("components/crumbs.html", takes_context=True)
def crumbs(
    context: template.Context, here: str, section: str = "", sink: str = "", *, mono: bool = False
) -> dict[str, Any]:
    """The way to a page: all tables, this one, a page of it with one of its sinks, and here."""
    titles = {place.page: place.title for place in PLACES}
    return {
        "table": context["table"],
        "here": here,
        "section": section,
        "section_title": titles.get(section, ""),
        "sink_id": sink,
        "is_mono": mono,
    }


@register.inclusion_tag("components/chart.html")
def chart(
    name: str, traces: object, label: str, twin: str = "", height: str = ""
) -> dict[str, Any]:
    """Where a chart is drawn, what it draws, and what it says to those who do not see it: also
    where its numbers stand, in its `twin`.
    """
    stands = f" {_TWINS.get(twin, twin)} lists the same numbers." if twin else ""
    return {
        "id": f"{name}-figure", "traces": traces, "label": f"{label}{stands}", "height": height
    }  # fmt: skip


@register.inclusion_tag("components/text_field.html")
def text_field(field: BoundField, label: str = "", mode: str = "") -> dict[str, Any]:
    """Show a line of text with its problem or its hint; `mode` is the keyboard of a phone."""
    label = label or str(field.label)
    return {"field": field, "label": label, "hint": field.help_text, "mode": mode}


@register.inclusion_tag("components/select_field.html")
def select_field(field: BoundField, label: str = "") -> dict[str, Any]:
    """Show a choice with its problem or its hint."""
    return {"field": field, "label": label or str(field.label), "hint": field.help_text}


@register.inclusion_tag("components/reason_field.html")
def reason_field(
    field: BoundField | None = None,
    *,
    reason: str = "",
    rows: int = 2,
    optional: bool = False,
    may_send: bool = True,
    with_plan: bool = False,
    hint: str = "",
) -> dict[str, Any]:
    """Why somebody asks for it: a form's field, or the bare text of a page without one."""
    return {
        "field": field,
        "reason": (field.value() or "") if field is not None else reason,
        "rows": rows,
        "is_optional": optional,
        "may_send": may_send,
        "hint": hint or (_KEPT_WITH_PLAN if with_plan else _KEPT),
    }


@register.inclusion_tag("components/typed_name_field.html", takes_context=True)
def typed_name_field(
    context: template.Context, field: BoundField, *, may_send: bool = True
) -> dict[str, Any]:
    """The table's name, typed to confirm."""
    return {"table": context["table"], "field": field, "may_send": may_send}
