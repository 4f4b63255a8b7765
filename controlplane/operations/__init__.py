"""What people asked for: writes, rollbacks, the marker server; each a row with a state machine."""
