"""Descriptions of requests, each written once. From the fields of a request come its body in the
API, its form, its arguments of `manage.py`, its method of the client and its table in the manual.
"""
