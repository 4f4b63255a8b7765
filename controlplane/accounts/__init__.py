"""Users, the roles that hold everywhere, and tokens."""
