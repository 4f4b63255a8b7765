"""How the threads of a worker talk: each reads one inbox, and all publish through one outbox."""

from __future__ import annotations

import queue

from workers.sink.messages import Message


class Inbox:
    """Messages for one machine, from the agent to the machine's thread."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def put(self, message: Message) -> None:
        """From any thread; never waits."""
        self._waiting.put(message)

    def take(self, wait_s: float) -> list[Message]:
        """All that are there; when there are none, what comes first within so long."""
        messages: list[Message] = []
        try:
            if wait_s > 0:
                messages.append(self._waiting.get(timeout=wait_s))
            while True:
                messages.append(self._waiting.get_nowait())
        except queue.Empty:
            return messages


class Outbox:
    """Messages to publish, from the machines' threads to the agent."""

    def __init__(self) -> None:
        self._waiting = Inbox()

    def put(self, message: Message) -> None:
        """From any thread; never waits."""
        self._waiting.put(message)

    def drain(self) -> list[Message]:
        """All that are there now, in the order in which they were put; never waits."""
        return self._waiting.take(0)
