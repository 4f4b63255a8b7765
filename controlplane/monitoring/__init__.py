"""Liveness, readiness and metrics of a node, alerts of table health, and their channels."""
