"""Actions on users, groups, tokens and logins. Each is recorded in the audit log."""
