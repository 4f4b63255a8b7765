"""`manage.py token`."""
