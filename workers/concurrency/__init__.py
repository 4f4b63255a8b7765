"""Who may publish what: the table lock, heartbeats, conflicts, and the transaction that runs them
in order.
"""
