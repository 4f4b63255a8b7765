"""Settings of the node as they hold, and where each comes from. Read only: a node reads them when
it starts.
"""

from __future__ import annotations

import os
from itertools import groupby

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from controlplane.node.effective import effective_settings
from controlplane.tables.access import Permission, may_everywhere
from web.refusals import page, person


@require_safe
@page
def node_settings(request: HttpRequest) -> HttpResponse:
    if not may_everywhere(person(request), Permission.ADMINISTER):
        raise PermissionDenied(f"this requires the {Permission.ADMINISTER.role} role everywhere")
    rows = sorted(effective_settings(os.environ), key=lambda row: row.setting.area)
    context = {
        "page": "node-settings",
        "areas": [(area, list(of)) for area, of in groupby(rows, lambda row: row.setting.area)],
        "changed": sum(row.source != "default" for row in rows),
        "total": len(rows),
    }
    return render(request, "pages/node_settings.html", context)
