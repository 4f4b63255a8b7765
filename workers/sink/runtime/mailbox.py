"""Queues between the threads of a worker: one inbox for each, and one outbox for all."""

from __future__ import annotations

import queue

from workers.sink.messages import Message


class Inbox:
    """Messages for one machine, from the agent to the machine's thread."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def put(self, message: Message) -> None:
        """Add the message, from any thread. Never waits."""
        self._waiting.put(message)

    def take(self, wait_s: float) -> list[Message]:
        """Return all messages. If there are none, wait at most `wait_s` for the first one."""
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
        """Add the message, from any thread. Never waits."""
        self._waiting.put(message)

    def drain(self) -> list[Message]:
        """Return all messages in the order in which they were added. Never waits."""
        return self._waiting.take(0)
