"""Users, user groups, API tokens, and login through a provider."""
