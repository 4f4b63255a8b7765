"""Users, the two roles, and tokens."""
