"""The right to publish: the table lock, heartbeats, conflicts, and the transaction that uses
them.
"""
