"""`manage.py audit`, and `flush`, which the triggers would reject otherwise."""
