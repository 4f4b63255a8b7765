"""Django's backend for PostgreSQL, with a quick `flush` between tests."""
