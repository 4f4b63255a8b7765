"""What the OpenAPI document says of the ways to authenticate, which importing this registers, and
of what every view takes.
"""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

from controlplane.api.list_files import FILE_FORMAT, list_columns
from controlplane.api.selection import FIELDS, SORT, row_names, sort_choices
from controlplane.row_files import FORMATS


class Schema(AutoSchema):
    """Names the fields that may be chosen, the orders of a whole list, and the files of a list."""

    def is_deprecated(self) -> bool:
        since = getattr(self.view, "deprecated_since", None)
        return since is not None or bool(super().is_deprecated())

    def get_override_parameters(self) -> Any:
        if self.method != "GET":
            return []
        taken = []
        if names := row_names(self.get_response_serializers()):
            taken.append(
                OpenApiParameter(
                    FIELDS,
                    str,
                    many=True,
                    explode=False,
                    enum=list(names),
                    description=f"These of each row alone, such as `{','.join(names[:2])}`.",
                )
            )
        if keys := getattr(self.view, "sort_keys", ()):
            taken.append(
                OpenApiParameter(
                    SORT,
                    str,
                    enum=sort_choices(keys),
                    description=f"By this field; `-{keys[0]}` has the greatest first.",
                )
            )
        is_file = getattr(self.view, "is_taken_as_file", False)
        if is_file and list_columns(self.get_response_serializers()):
            taken.append(
                OpenApiParameter(
                    FILE_FORMAT,
                    str,
                    enum=list(FORMATS),
                    description="All rows that the filters leave as a file, instead of a page.",
                )
            )
        return taken


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # registers itself
    target_class = "controlplane.api.auth.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`Token <token>`",
        }


class WorkerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # registers itself
    target_class = "controlplane.api.auth.WorkerAuthentication"
    name = "worker"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`Worker <token>`",
        }
