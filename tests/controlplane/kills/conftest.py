"""The broker whose topic dead letters go to."""

from __future__ import annotations

from tests.support.kafka import kafka

__all__ = ["kafka"]
