"""`manage.py audit`, and `flush`, which would be refused without it."""
