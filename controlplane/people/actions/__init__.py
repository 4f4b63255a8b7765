"""What changes who may sign in, and how. All of it is in the audit."""
