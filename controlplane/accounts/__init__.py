"""Users, the three roles, and tokens."""
