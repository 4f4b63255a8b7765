"""People and what they sign in with."""
