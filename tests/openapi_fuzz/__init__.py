"""Requests drawn from the OpenAPI document, sent as each role to an API on PostgreSQL."""
