"""Roles of users (global, per namespace, per table), API tokens, and the throttling of logins."""
