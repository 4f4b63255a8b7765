"""Commands of monitoring."""
