"""All table services by name, for the shell, the API, Celery and the handle."""

from __future__ import annotations

from workers.errors import InvalidInput
from workers.services.service import Service

_SERVICES: dict[str, Service] = {}


def service(name: str) -> Service:
    """Raises InvalidInput for a name that no service has."""
    try:
        return _SERVICES[name]
    except KeyError as error:
        raise InvalidInput("unknown service", service=name, known=service_names()) from error


def service_names() -> list[str]:
    return sorted(_SERVICES)
