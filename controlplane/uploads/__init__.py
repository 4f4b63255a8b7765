"""Files that users upload to be loaded once (threat T35): stored by the node, private to their
owner, and removed after the operation that loaded them.
"""
