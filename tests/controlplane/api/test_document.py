"""The OpenAPI document is made without a doubt: no two bodies or rows share a name."""

from __future__ import annotations

import importlib
from typing import Any

from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator


def test_the_document_is_made_without_a_warning() -> None:
    importlib.import_module("controlplane.api.openapi")
    GENERATOR_STATS.reset()
    generator: Any = SchemaGenerator(urlconf="controlplane.urls")  # type: ignore[no-untyped-call]  # it has no types

    with GENERATOR_STATS.silence():
        generator.get_schema(request=None, public=True)

    assert dict(GENERATOR_STATS._warn_cache) == {}
    assert dict(GENERATOR_STATS._error_cache) == {}
