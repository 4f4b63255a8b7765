"""What `manage.py table` does and prints, one module per kind of subcommand."""
