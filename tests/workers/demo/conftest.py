"""One broker for all files here."""

from __future__ import annotations

from tests.support.kafka import kafka, topic, topics

__all__ = ["kafka", "topic", "topics"]
