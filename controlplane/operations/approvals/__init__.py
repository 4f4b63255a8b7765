"""A second person for what admins ask for: which actions need one, and what they say."""
