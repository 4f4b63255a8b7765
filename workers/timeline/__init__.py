"""The table's history: instants, their files, their contents, and the decision that makes one
final.
"""
