"""A new table: what a file suggests, what it is to be, and making it.

Two small files and a row, at once: hence no operation, but a request with its key and its audit.
"""
