"""An append-only record of who asked for what, and how it ended."""
