"""A copy of what table storage says. Empty it and sync again: it comes back."""
