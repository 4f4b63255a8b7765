"""What people asked for: writes, rollbacks, and the marker server; each a row with a state machine."""
