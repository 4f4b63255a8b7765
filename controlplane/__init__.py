"""The control plane: Django models that mirror table storage, operations, and the REST API. Never
imports `web`.
"""
