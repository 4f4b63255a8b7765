"""Users, their roles everywhere, in namespaces and on tables, and what slows guessing down."""
