"""The table lock: one lease, and the providers that keep its record."""
