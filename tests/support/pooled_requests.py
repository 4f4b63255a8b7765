"""A web process in small: many requests at once to the ASGI application, then the connections to
PostgreSQL that are open, as JSON. Run with the environment of a node.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from controlplane.asgi import application

ROUNDS = 3
AT_ONCE = 40


async def ask(headers: list[tuple[bytes, bytes]]) -> int:
    """The status of one list of tables."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/tables/",
        "raw_path": b"/api/v1/tables/",
        "query_string": b"",
        "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.1", 1),
    }
    sent: list[Any] = []
    messages = iter([{"type": "http.request", "body": b""}])

    async def receive() -> Any:
        for message in messages:
            return message
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    await application(scope, receive, send)
    return int(sent[0]["status"])


async def ask_often(headers: list[tuple[bytes, bytes]]) -> list[int]:
    statuses: list[int] = []
    for _ in range(ROUNDS):
        statuses += await asyncio.gather(*(ask(headers) for _ in range(AT_ONCE)))
    return statuses


def main() -> None:
    from django.contrib.auth.models import Group, User
    from django.core.management import call_command
    from django.db import connection

    from controlplane.accounts.tokens import create_token

    call_command("migrate", verbosity=0)
    person = User.objects.create_user("vera")
    person.groups.add(Group.objects.get(name="viewer"))
    token = create_token(person, scope="administer")[1]
    connection.close()
    statuses = asyncio.run(ask_often([(b"authorization", f"Token {token}".encode())]))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND datname = current_database()"
        )
        (backends,) = cursor.fetchone()
    json.dump({"statuses": sorted(set(statuses)), "backends": backends}, sys.stdout)


if __name__ == "__main__":
    main()
